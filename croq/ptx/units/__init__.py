"""The hardware units that executed PTX drives: pure functions and small state classes on NumPy arrays and integers.

Nothing here knows the parser, the machine, the emitter or the IR simulator: every unit is derived from the PTX ISA and
the CUDA driver API alone, so that an agreement with the rest of the compiler means something. Facts of the chip that
stand in croq/target are read a second time here, for the same reason.
"""
