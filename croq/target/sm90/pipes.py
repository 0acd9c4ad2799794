"""Which pipe of an SM executes an instruction, by its opcode in SASS.

Opcodes are those of "Instruction Set Reference" of the CUDA Binary Utilities, table for Hopper. That FMNMX and F2FP
share the pipe of comparisons and logic, FADD, FMUL and FFMA another, and MUFU a third was measured on an H200
(docs/timelines.md); IMAD is the integer work of the FMA pipe. What starts with U works on uniform registers.
"""

from __future__ import annotations

from collections.abc import Mapping


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PIPES: Mapping[str, frozenset[str]] = {
    "tensor": _words("HGMMA IGMMA QGMMA BGMMA HMMA IMMA DMMA BMMA"),
    "xu": _words("MUFU I2F I2FP F2I F2F FRND"),
    "fma": _words("FFMA FADD FMUL IMAD IDP HFMA2 HADD2 HMUL2 FFMA32I FADD32I FMUL32I IMUL"),
    "fp64": _words("DADD DMUL DFMA DSETP DMNMX"),
    "alu": _words(
        """FMNMX FSEL FSET FSETP FCHK F2FP IABS IADD3 IADD VIADD VIADDMNMX VIMNMX IMNMX ISETP LEA LOP3 LOP PLOP3 PRMT
        SEL SHF SHL SHR SGXT BMSK BREV FLO POPC HSET2 HSETP2 HMNMX2 LOP32I MOV MOV32I CS2R P2R R2P VABSDIFF"""
    ),
    "lsu": _words(
        """LD LDG LDL LDS LDSM LDGSTS LDGMC ST STG STL STS STSM STAS ATOM ATOMS ATOMG RED SHFL MATCH SYNCS LDC CCTL
        S2R"""
    ),
    "tma": _words("UTMALDG UTMASTG UTMAPF UTMAREDG UTMACMDFLUSH UTMACCTL UBLKCP UBLKPF UBLKRED"),
    "control": _words(
        """BRA BRX JMP JMX CALL RET EXIT KILL BSSY BSYNC BREAK BMOV WARPSYNC YIELD NOP NANOSLEEP BAR DEPBAR ERRBAR
        MEMBAR FENCE WARPGROUP ENDCOLLECTIVE ELECT VOTE R2B B2R BPT RPCMOV LEPC PREEXIT ACQBULK USETMAXREG"""
    ),
}
UNIFORM = "uniform"  # opcodes that start with U and are not above, and moves to and from uniform registers
_PIPE = {opcode: pipe for pipe, opcodes in PIPES.items() for opcode in opcodes}
_MOVES = _words("R2UR VOTEU S2UR")


def pipe_of(opcode: str) -> str:
    """Of an opcode without its modifiers (`FADD`, not `FADD.FTZ`); "other" where the tables have none."""
    if opcode in _PIPE:
        return _PIPE[opcode]
    return UNIFORM if opcode.startswith("U") or opcode in _MOVES else "other"
