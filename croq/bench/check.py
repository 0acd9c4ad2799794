"""The numeric check: which rows are compared with the reference, the rule, and the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from os import cpu_count
from typing import Any

import numpy as np

from croq.bench.inputs import AttentionInputs, poisoned
from croq.bench.reference import attention_rows, widen
from croq.bench.workload import Array, AttentionWorkload, Slab
from croq.diagnostics import WrongResult, make

ABSOLUTE, RELATIVE = 0.05, 0.1  # |error| <= ABSOLUTE + RELATIVE * |reference|, for every checked element
MAX_ABS_ERROR = 0.004  # and none may be further off than this: what bf16 output and bf16 probabilities explain

_EDGE = 128  # the largest tile of the shipped kernels; every smaller power-of-two tile has its edges there too


@dataclass(frozen=True)
class Rule:
    """Tolerance of an element (`absolute + relative * |reference|`), and a cap on the error of all."""

    absolute: float = ABSOLUTE
    relative: float = RELATIVE
    max_abs_error: float = MAX_ABS_ERROR


@dataclass(frozen=True)
class Worst:
    """The element with the largest error, or the first one that is no number."""

    batch: int
    row: int
    head: int
    column: int
    got: float
    expected: float


@dataclass(frozen=True)
class CheckReport:
    """The result of a check. `not_numbers` counts NaN and infinities, `unwritten` those of them that nobody wrote."""

    checked: int
    max_abs_error: float
    outside_rule: int
    not_numbers: int
    unwritten: int
    worst: Worst | None
    rule: Rule = Rule()

    @property
    def ok(self) -> bool:
        """Whether something was checked and all of it is right."""
        return (
            self.checked > 0
            and self.outside_rule == 0
            and self.not_numbers == 0
            and self.max_abs_error <= self.rule.max_abs_error
        )

    def describe(self) -> str:
        """One line: the verdict and the numbers behind it."""
        parts = [f"{self.checked} elements checked", f"max abs error {self.max_abs_error:.5f}"]
        if self.outside_rule:
            parts.append(f"{self.outside_rule} outside {self.rule.absolute} + {self.rule.relative} * |reference|")
        elif self.max_abs_error > self.rule.max_abs_error:
            parts.append(f"more than {self.rule.max_abs_error}")
        if self.not_numbers:
            parts.append(f"{self.not_numbers} not finite ({self.unwritten} never written)")
        if self.worst is not None and not self.ok:
            w = self.worst
            parts.append(f"worst at [{w.batch}, {w.row}, {w.head}, {w.column}]: {w.got:.6g}, not {w.expected:.6g}")
        return f"{'ok' if self.ok else 'WRONG'}: " + ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the fields and the verdict; numbers that JSON lacks become strings."""
        plain = {"ok": self.ok, **asdict(self)}
        if plain["worst"] is not None:
            plain["worst"] = {k: _json_number(v) for k, v in plain["worst"].items()}
        return plain

    def require(self) -> None:
        """Raise `WrongResult` (E-4160) unless the check passed."""
        if not self.ok:
            hint = "run `croq check` and `croq sim` on the kernel: they name the place of a wrong handshake"
            raise WrongResult([make("E-4160", None, f"the output is wrong: {self.describe()}", hint=hint)])


def rows_to_check(workload: AttentionWorkload) -> dict[Slab, list[int]]:
    """Rows of every (batch, head): both sides of the first and last tile edges, the tail, and one tile inside.

    The tile inside moves from slab to slab, so that together they visit the whole sequence.
    """
    seq = workload.seq
    tiles = -(-seq // _EDGE)
    fixed = {0, 1, 63, 64, 127, 128, 129, 191, 192, 255, 256}
    fixed |= {seq - back for back in (1, 2, 63, 64, 65, 127, 128, 129)}
    last = (tiles - 1) * _EDGE  # first row of the last tile, also when that one is not full
    fixed |= {last - 1, last, last + 1}
    result = {}
    for number, slab in enumerate(workload.slabs):
        start = number % tiles * _EDGE
        rows = fixed | {start, start + 63, start + 64, start + _EDGE - 1, start + (37 * number + 11) % _EDGE}
        result[slab] = sorted(row for row in rows if 0 <= row < seq)
    return result


def check_attention(
    inputs: AttentionInputs,
    output: Array | None = None,
    where: Mapping[Slab, Sequence[int]] | None = None,
    *,
    rule: Rule | None = None,
) -> CheckReport:
    """Compare rows of `output` (default: `inputs.o`) with the reference.

    `where` maps (batch, head) to rows; the default is `rows_to_check` over the slabs that `inputs` holds. Every slab
    named must be one of those.
    """
    workload, rule = inputs.workload, rule or Rule()
    out = inputs.o if output is None else output
    if where is None:
        every = rows_to_check(workload)
        where = {slab: every[slab] for slab in inputs.slabs}
    strangers = sorted(set(where) - set(inputs.slabs))
    if strangers:
        raise ValueError(f"no inputs were made for (batch, head) {strangers[0]}")
    wanted = where

    def one(slab: Slab) -> CheckReport:
        return _check_slab(inputs, out, slab, list(wanted[slab]), rule)

    # Each worker holds one slab of K and V in float64: 32 MiB at S = 16384.
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        return merge(pool.map(one, [slab for slab in wanted if wanted[slab]]), rule)


def merge(reports: Iterable[CheckReport], rule: Rule) -> CheckReport:
    """One report over several; the worst element is the worst of all."""
    total = CheckReport(0, 0.0, 0, 0, 0, None, rule)
    for report in reports:
        worse = _badness(report) > _badness(total) or total.worst is None
        total = CheckReport(
            total.checked + report.checked,
            max(total.max_abs_error, report.max_abs_error),
            total.outside_rule + report.outside_rule,
            total.not_numbers + report.not_numbers,
            total.unwritten + report.unwritten,
            report.worst if worse else total.worst,
            rule,
        )
    return total


def _badness(report: CheckReport) -> tuple[bool, float]:
    return report.not_numbers > 0, report.max_abs_error


def _check_slab(inputs: AttentionInputs, out: Array, slab: Slab, rows: list[int], rule: Rule) -> CheckReport:
    batch, head = slab
    q, k, v = (array[batch, :, head, :] for array in (inputs.q, inputs.k, inputs.v))
    expected = attention_rows(q, k, v, rows, causal=inputs.workload.causal, scale=inputs.workload.scale)
    raw = out[batch, rows, head, :]
    got = widen(raw)
    finite = np.isfinite(got)
    error = np.where(finite, np.abs(np.where(finite, got, 0.0) - expected), 0.0)
    at = int(np.argmin(finite) if not finite.all() else np.argmax(error))
    i, column = divmod(at, error.shape[1])
    return CheckReport(
        checked=error.size,
        max_abs_error=float(error.max()),
        outside_rule=int((error > rule.absolute + rule.relative * np.abs(expected)).sum()),
        not_numbers=int((~finite).sum()),
        unwritten=int(poisoned(raw).sum()),
        worst=Worst(batch, rows[i], head, column, float(got[i, column]), float(expected[i, column])),
        rule=rule,
    )


def _json_number(value: float) -> float | str:
    return value if np.isfinite(value) else str(value)
