"""Single-edit mutants of a kernel's synchronisation, and what catches them (docs/mutants.md)."""
