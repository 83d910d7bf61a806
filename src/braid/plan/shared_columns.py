"""Shared columns: which columns the m-ops write whose members need different ones.

What a query shows or tests later is no part of an operator's identity. So an m-op writes the union of
what its members need, in an order that does not depend on who came first. All queries are planned
before the first m-op is built: then each is built with the columns that all of them need. A query that
comes later and needs more of an m-op that runs makes the shard plan again (`Shard.can_add`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar, cast

Detail = TypeVar("Detail", bound=Hashable)


class SharedColumns:
    """The columns of each m-op by name, with what the m-op has to know of each."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Hashable]] = {}
        #: The m-ops that got more columns since `watch`.
        self.widened: set[str] = set()

    def union(self, mop: str, needed: Mapping[str, Detail]) -> tuple[tuple[str, Detail], ...]:
        """All columns of an m-op, these included, in order of their names."""
        known = cast(dict[str, Detail], self._known.setdefault(mop, {}))
        more = needed.keys() - known.keys()
        if more:
            known.update((name, needed[name]) for name in more)
            self.widened.add(mop)
        return tuple(sorted(known.items(), key=lambda item: item[0]))

    def agree(self, mop: str, names: tuple[str, ...]) -> bool:
        """Whether an m-op that writes these columns writes what all members need."""
        known = self._known.get(mop)
        return known is None or len(known) == len(names)

    def watch(self) -> None:
        """Forget which m-ops got more columns."""
        self.widened = set()
