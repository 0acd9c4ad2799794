"""Executes PTX on the CPU: the judge of what was emitted. See docs/simulator.md.

Shares nothing with the emitter or the simulator of the lowered IR but the definition of a launch's arguments and
the limits of the chip (croq/target).
"""
