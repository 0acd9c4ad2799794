"""What a unit raises when an instruction asks for something that the ISA leaves undefined."""

from __future__ import annotations


class UnitFault(Exception):
    """A use that the ISA forbids. `kind` is a stable word for programs, the sentence says what was wrong with numbers.

    The executor adds where it happened: line, threads, schedule.
    """

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence


def require(holds: bool, kind: str, sentence: str) -> None:
    """Raises a `UnitFault` unless `holds`."""
    if not holds:
        raise UnitFault(kind, sentence)
