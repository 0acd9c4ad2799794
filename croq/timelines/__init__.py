"""Timelines: what one block of a kernel does, on a modelled time axis (docs/timelines.md).

`timeline` lays a block out, from what `record` wrote down while the simulator ran it, at the prices of `costs`; `trace`
and `svg` show it.
"""
