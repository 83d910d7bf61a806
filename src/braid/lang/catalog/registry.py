"""Registered queries by id: single queries, and members of prepared queries.

A prepared query may have a million members. They are columns; a member becomes a `Query` only on
request.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from braid.algebra.queries import Query
from braid.algebra.templates import Members, Template

if TYPE_CHECKING:
    from braid.lang.catalog.prepared import Statement


class Roster:
    """The members of one prepared query. Their ids are its name, a slash and an id."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._members = Members.of(statement.template, [], [])
        self._dropped: set[int] = set()
        self._order: np.ndarray | None = None
        self.rows = 0  # that it ever received, including refused ones

    @property
    def template(self) -> Template:
        return self.statement.template

    def copy(self) -> Roster:
        other = Roster(self.statement)
        other._members, other._order = self._members, self._order
        other._dropped = set(self._dropped)
        other.rows = self.rows
        return other

    def add(self, new: Members, rows: int) -> None:
        assert new.template is self.template
        old = self._members
        ids = pa.concat_arrays([old.ids, new.ids])
        values = zip(old.values, new.values, strict=True)
        self._members = Members(self.template, ids, tuple(map(pa.concat_arrays, values)))
        self._order = None
        self.rows += rows

    def take_back(self, count: int, rows: int) -> None:
        """Undo the last `add`, which added the given numbers of members and rows."""
        self.rows -= rows
        kept = len(self._members) - count
        old = self._members
        values = tuple(array.slice(0, kept) for array in old.values)
        self._members = Members(self.template, old.ids.slice(0, kept), values)
        self._order = None

    def drop(self, member: str) -> None:
        row = self.find(member)
        assert row is not None
        self._dropped.add(row)

    def find(self, member: str) -> int | None:
        """The row of a member; None if no member has this id."""
        if self._order is None:
            self._order = np.asarray(pa.compute.sort_indices(self._members.ids))
        ids, order = self._members.ids, self._order
        low, high = 0, len(order)
        while low < high:  # the last one, because a member may return after a drop
            middle = (low + high) // 2
            if ids[order[middle]].as_py().encode() <= member.encode():
                low = middle + 1
            else:
                high = middle
        row = int(order[low - 1]) if low else None
        if row is None or ids[row].as_py() != member or row in self._dropped:
            return None
        return row

    def query(self, row: int) -> Query:
        member = self._members.ids[row].as_py()
        return Query.of(member, self.statement.text, self.template, self._members.row(row))

    def members(self) -> Members:
        """The members that have not been dropped."""
        if not self._dropped:
            return self._members
        kept = np.ones(len(self._members), dtype=bool)
        kept[list(self._dropped)] = False
        mask = pa.array(kept)
        all_ = self._members
        return Members(
            self.template, all_.ids.filter(mask), tuple(v.filter(mask) for v in all_.values)
        )

    def queries(self) -> Iterator[Query]:
        members, text = self.members(), self.statement.text
        for member, values in zip(members.ids.to_pylist(), members.rows(), strict=True):
            yield Query.of(member, text, self.template, values)

    def __len__(self) -> int:
        return len(self._members) - len(self._dropped)


class Queries(Mapping[str, Query]):
    """Every query by its id, single queries first."""

    def __init__(self) -> None:
        self.single: dict[str, Query] = {}
        self.prepared: dict[str, Roster] = {}

    def copy(self) -> Queries:
        other = Queries()
        other.single = dict(self.single)
        other.prepared = {name: roster.copy() for name, roster in self.prepared.items()}
        return other

    def roster_of(self, member: str) -> Roster | None:
        """The prepared query that has a member of this id."""
        if not self.prepared:
            return None
        slash = member.find("/")
        while slash >= 0:
            roster = self.prepared.get(member[:slash])
            if roster is not None and roster.find(member) is not None:
                return roster
            slash = member.find("/", slash + 1)
        return None

    def __getitem__(self, query_id: str) -> Query:
        query = self.single.get(query_id)
        if query is not None:
            return query
        roster = self.roster_of(query_id)
        row = roster.find(query_id) if roster is not None else None
        if roster is None or row is None:
            raise KeyError(query_id)
        return roster.query(row)

    def __contains__(self, query_id: object) -> bool:
        if query_id in self.single:
            return True
        return isinstance(query_id, str) and self.roster_of(query_id) is not None

    def __iter__(self) -> Iterator[str]:
        yield from self.single
        for roster in self.prepared.values():
            yield from roster.members().ids.to_pylist()

    def __len__(self) -> int:
        return len(self.single) + sum(map(len, self.prepared.values()))

    def values(self) -> ValuesView[Query]:
        return _Values(self)

    def items(self) -> ItemsView[str, Query]:
        return _Items(self)

    def all(self) -> Iterator[Query]:
        yield from self.single.values()
        for roster in self.prepared.values():
            yield from roster.queries()

    def __repr__(self) -> str:
        return f"Queries({list(self)!r})"


class _Values(ValuesView[Query]):
    """All values in one pass; a lookup for each id would be a search for each member."""

    def __init__(self, queries: Queries) -> None:
        super().__init__(queries)
        self._queries = queries

    def __iter__(self) -> Iterator[Query]:
        return self._queries.all()


class _Items(ItemsView[str, Query]):
    def __init__(self, queries: Queries) -> None:
        super().__init__(queries)
        self._queries = queries

    def __iter__(self) -> Iterator[tuple[str, Query]]:
        return ((query.id, query) for query in self._queries.all())
