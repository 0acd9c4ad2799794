"""What more than one pass asks about a kernel. Nothing here changes one."""
