"""What an execution of PTX may find wrong, as coded diagnostics.

E-7001  text that is no PTX, or beyond the subset that the compiler makes of emitted files
E-7002  an instruction, or a form of one, that the machine cannot execute
E-7003  the module has no such kernel, or its parameters are others
E-7010  deadlock: every thread that is left waits
E-7011  a loop that does not end
E-7012  an access outside of everything that the threads may touch
E-7013  a misaligned access
E-7014  a read of bytes that nothing has written
E-7015  a value that nothing has computed decides where the program goes, what it touches, or what it gives
E-7016  a write to memory that is read-only
E-7017  an instruction of a whole warp or warpgroup that a part of it cannot reach
E-7018  an integer division by zero
E-7020  shared memory is touched while an operation in flight reads or writes it
E-7021  an mbarrier is used wrongly
E-7022  a named barrier is used wrongly
E-7023  a bulk copy or a tensor map is used wrongly
E-7024  a matrix instruction is used wrongly
E-7025  something is still in flight at the end
E-7026  `trap`
E-7030  the emitted code disagrees with the lowered program (croq.agreement)
W-7031  the two could not be compared
E-7099  the machine itself failed
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from croq.diagnostics import CroqError, make
from croq.ptx.syntax import Place
from croq.ptx.units.fault import UnitFault
from croq.source import SourceFile, Span


class PtxFault(CroqError):
    """Something is wrong with the PTX, or goes wrong when it is executed. `place`: where, None for nowhere."""

    def __init__(self, code: str, message: str, place: Place | None = None, notes: Iterable[str] = (), hint: str = ""):
        self.place = place
        super().__init__([make(code, None, message, notes=notes, hint=hint or None)])

    @property
    def code(self) -> str:
        return self.diagnostics[0].code

    def with_notes(self, *notes: str) -> PtxFault:
        """The same fault with more notes."""
        first = self.diagnostics[0]
        return PtxFault(first.code, first.message, self.place, (*first.notes, *notes), first.hint or "")

    def in_source(self, file: SourceFile) -> PtxFault:
        """The same fault at a line of the source text, where `.loc` names one of it."""
        if self.place is None or not 1 <= self.place.source_line <= len(file.line_starts) or not self.place.file:
            return self
        text, start = file.line_text(self.place.source_line), file.line_starts[self.place.source_line - 1]
        span = Span(file, start + len(text) - len(text.lstrip()), start + len(text.rstrip()))
        found = PtxFault(self.code, "", self.place)
        found.diagnostics = (replace(self.diagnostics[0], span=span), *self.diagnostics[1:])
        found.args = (found.diagnostics[0].render(),)
        return found

    def at(self, place: Place) -> PtxFault:
        """The same fault at a place, unless it has one."""
        if self.place is not None:
            return self
        first = self.diagnostics[0]
        return PtxFault(first.code, first.message, place, first.notes, first.hint or "")


_UNIT_CODES = {"mbarrier": "E-7021", "tensor": "E-7023", "bulk": "E-7023", "reduction": "E-7023", "cp": "E-7023"}


def of_unit(fault: UnitFault) -> PtxFault:
    """What a unit refuses, with the code of its kind; not raised."""
    return PtxFault(_UNIT_CODES.get(fault.kind.partition("-")[0], "E-7024"), fault.sentence)


def unsupported(message: str, place: Place | None) -> PtxFault:
    """An instruction or a form of one that there is no rule for; not raised."""
    return PtxFault("E-7002", message, place, hint="this is a limit of the machine, not a fault of the program")
