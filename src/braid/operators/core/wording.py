"""Words for numbers, for the texts of `explain` and `stats`."""

from __future__ import annotations

from collections.abc import Sequence

from braid.algebra.schema import TICKS
from braid.algebra.text import show_duration


def counted(number: int, word: str) -> str:
    """`1 query`, `2 queries`."""
    if number == 1:
        return f"1 {word}"
    if word.endswith("y"):
        return f"{number:,} {word[:-1]}ies"
    return f"{number:,} {word}{'es' if word.endswith('s') else 's'}"


def length(amount: int, unit: str) -> str:
    """A distance in time: `3 ticks`, `10 min`. `unit`: what the time counts."""
    return counted(amount, "tick") if unit == TICKS else show_duration(amount)


def some(names: Sequence[str], most: int = 4) -> str:
    """The first names of many, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
