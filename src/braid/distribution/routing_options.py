"""Options to route the streams below an operator; see `keys.py` and `row_keys.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from braid.algebra.expressions import Expression
from braid.algebra.joins import plain_ref

#: The most options of one node. More than a handful means symmetric choices.
MAX_OPTIONS = 64


@dataclass(frozen=True)
class Option:
    """A way to route the leaves of a node: their channels in order, and the located attributes."""

    located: frozenset[str]
    leaves: tuple[str, ...]


class Unkeyable(Exception):
    """The reason why a node cannot be keyed."""


def distinct(options: Iterator[Option | None]) -> list[Option]:
    """One option for each set of located attributes. Options with the same set are equivalent."""
    kept: dict[frozenset[str], Option] = {}
    for option in options:
        if option is not None and option.located not in kept:
            kept[option.located] = option
            if len(kept) == MAX_OPTIONS:
                break
    return list(kept.values())


def copied(items: tuple[tuple[str, Expression], ...], option: Option) -> Option:
    """The located attributes among computed ones: plain copies of located ones."""
    located = set()
    for name, expression in items:
        ref = plain_ref(expression)
        if ref is not None and ref.name in option.located:
            located.add(name)
    return Option(frozenset(located), option.leaves)
