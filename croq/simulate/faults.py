"""What a simulation may find wrong, as coded diagnostics.

E-5001  an array or a scalar is missing, unknown, or not usable
E-5002  an array has the wrong element type
E-5003  an array has the wrong number of dimensions
E-5004  an extent differs from what the kernel says, or from the same symbol elsewhere
E-5005  a symbol has no value, or none that makes sense
E-5006  the grid is empty, or a chosen block lies outside it
E-5007  no such schedule
E-5008  a timeline of no steps
E-5010  deadlock: every warp that is left waits
E-5011  too many steps: a loop that does not end
E-5012  an access outside a shared or local buffer
E-5013  an access outside a parameter's data
E-5014  more arrivals at an mbarrier than its phase takes
E-5015  transaction bytes of an mbarrier do not fit what was expected
E-5016  an mbarrier is used before it is initialised, or initialised twice
E-5017  a named barrier is used wrongly
E-5018  a fragment is touched while a WGMMA uses it
E-5019  a WGMMA without the fence that it needs
E-5020  an operation of a whole warp or warpgroup is executed by a part of it
E-5021  something is still in flight when a warp, or the CTA, exits
E-5022  an integer division by zero
E-5023  a value that must be the same in a whole warp is not
E-5024  an address or a layout that the hardware cannot use
E-5030  an operation that the simulator cannot run
E-5032  a device function that the simulator cannot run
E-5040  a read of bytes that a load in flight writes
E-5041  an overwrite of bytes that an operation in flight reads
E-5042  an overwrite of bytes that an operation in flight writes
E-5043  a read or an overwrite of what other threads wrote, in no certain order
E-5044  an overwrite of what others have read, in no certain order
E-5045  ordinary stores that the async proxy may not see
E-5046  a read of shared memory that nothing has written
E-5047  a read of a fragment that nothing has written
E-5048  an arrival that may count twice in one phase
E-5049  a wait that comes too late, or may: parity means another phase
E-5050  lanes of a warp that touch elements of one another without a barrier
E-5051  two blocks of which one writes what the other touches
E-5052  results that differ between schedules
E-5053  lanes of a warp that store different values to one element
E-5099  the simulator itself failed
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from croq.diagnostics import CroqError, Diagnostic, LaunchError, make
from croq.ir.core import Op
from croq.source import Span


class SimulationFault(CroqError):
    """The kernel did something on the simulated machine that is an error there."""

    def with_notes(self, *notes: str) -> SimulationFault:
        """The same fault, its first diagnostic with more notes."""
        first, *rest = self.diagnostics
        return SimulationFault([replace(first, notes=(*first.notes, *notes)), *rest])


def fault(
    code: str,
    where: Op | Span | None,
    message: str,
    *,
    labels: Iterable[tuple[Span, str]] = (),
    notes: Iterable[str] = (),
    hint: str | None = None,
) -> SimulationFault:
    """A fault at an operation (its span) or a span; not raised."""
    span = where.span if isinstance(where, Op) else where
    return SimulationFault([make(code, span, message, labels=labels, notes=notes, hint=hint)])


def argument_fault(diagnostics: Iterable[Diagnostic]) -> LaunchError:
    """The arguments of a simulation do not fit the kernel; not raised."""
    return LaunchError(list(diagnostics))
