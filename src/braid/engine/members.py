"""Who is in the plan: queries by number, the way of each, and when each lives."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.schema import Schema
from braid.mops.publish import Subscribers
from braid.mops.values import Words
from braid.plan.routes import Route


@dataclass
class ExitPoint:
    """Where results of one form come out: those of all queries that share channel and schema."""

    channel: str
    stream: str | None
    schema: Schema
    time_type: pa.DataType
    subscribers: Subscribers = field(default_factory=Subscribers)
    #: Its queries are gone and others have not come: a new one would be another exit.
    gone: bool = False
    #: It stays without queries: a prepared query that has no members is read by others.
    stays: bool = False


@dataclass
class Admitted:
    """Queries of one template that came together, in order of their numbers.

    `nodes`: for each stage of the route, the node of each query in the stage's output.
    """

    route: Route
    ids: pa.StringArray
    first: int
    nodes: list[Words]
    exits: list[ExitPoint]
    births: Words
    gone: np.ndarray

    @property
    def numbers(self) -> Words:
        return self.first + np.arange(len(self.ids), dtype=np.int64)

    @cached_property
    def _order(self) -> Words:
        """The rows in the order of their ids."""
        return np.asarray(pc.sort_indices(self.ids)).astype(np.int32)

    def rows_between(self, low: str, high: str) -> list[int]:
        """The rows of queries that are there whose ids are `low` or more, but less than `high`."""
        first, last = self._place(low.encode()), self._place(high.encode())
        return [row for row in self._order[first:last].tolist() if not self.gone[row]]

    def _place(self, name: bytes) -> int:
        """Where a name belongs in the order of the ids, which is that of their bytes."""
        return bisect_left(self._order, name, key=lambda row: self.ids[int(row)].as_py().encode())


#: As many queries that came together are found by the order of their ids, without a table.
MANY = 256


class Census:
    """All queries by number. Numbers of queries that are gone are given again."""

    def __init__(self) -> None:
        #: In order of their first numbers.
        self.admitted: list[Admitted] = []
        self._firsts: list[int] = []
        self._next = 0
        self._free: dict[int, list[int]] = {}
        self._by_id: dict[str, int] = {}
        self._unindexed: list[Admitted] = []
        self._large: dict[int, Admitted] = {}
        self.count = 0
        #: Changes with every query that comes or goes.
        self.version = 0

    def new_numbers(self, count: int) -> int:
        """The first of so many numbers in a row."""
        again = self._free.get(count)
        if again:
            return again.pop()
        first = self._next
        self._next += count
        return first

    def add(self, admitted: Admitted) -> None:
        place = bisect_right(self._firsts, admitted.first)
        self.admitted.insert(place, admitted)
        self._firsts.insert(place, admitted.first)
        self._unindexed.append(admitted)
        self.count += len(admitted.ids)
        self.version += 1

    def of(self, number: int) -> Admitted:
        return self.admitted[bisect_right(self._firsts, number) - 1]

    def id_of(self, number: int) -> str:
        admitted = self.of(number)
        found: str = admitted.ids[number - admitted.first].as_py()
        return found

    def ids_of(self, numbers: Words) -> pa.StringArray:
        """The ids of queries whose numbers are given in order."""
        if not len(numbers):
            return pa.array([], pa.string())
        groups = np.searchsorted(np.array(self._firsts, np.int64), numbers, "right") - 1
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        parts = [
            self.admitted[group].ids.take(pa.array(own - self.admitted[group].first))
            for group, own in zip(groups[starts], np.split(numbers, starts[1:]), strict=True)
        ]
        return pa.concat_arrays(parts)

    def numbers_of(self, query: str) -> list[int]:
        """The numbers of a query, or of all members of a prepared one."""
        number = self._number(query)
        if number is not None:
            return [number]
        start, end = f"{query}/", f"{query}0"  # what begins with the one is before the other
        few = [n for name, n in self._by_id.items() if name.startswith(start)]
        many = [a.first + row for a in self._large.values() for row in a.rows_between(start, end)]
        return few + many

    def has(self, query: str) -> bool:
        """Whether there is a query of exactly this id."""
        return self._number(query) is not None

    def _number(self, query: str) -> int | None:
        for admitted in self._unindexed:
            if len(admitted.ids) >= MANY:
                if not admitted.gone.all():
                    self._large[admitted.first] = admitted
                continue
            for row, name in enumerate(admitted.ids.to_pylist()):
                if not admitted.gone[row]:
                    self._by_id[name] = admitted.first + row
        self._unindexed = []
        number = self._by_id.get(query)
        if number is not None:
            return number
        for admitted in self._large.values():
            for row in admitted.rows_between(query, f"{query}\0"):
                return admitted.first + row
        return None

    def forget(self, numbers: Sequence[int]) -> None:
        groups: dict[int, Admitted] = {}
        for number in numbers:
            admitted = self.of(number)
            name = admitted.ids[number - admitted.first].as_py()
            admitted.gone[number - admitted.first] = True
            groups[admitted.first] = admitted
            if self._by_id.get(name) == number:
                del self._by_id[name]
        self.count -= len(numbers)
        self.version += 1
        for first, admitted in groups.items():
            if admitted.gone.all():
                self._large.pop(first, None)
                place = bisect_right(self._firsts, first) - 1
                del self.admitted[place], self._firsts[place]
                self._free.setdefault(len(admitted.ids), []).append(first)

    def living(self) -> Iterator[tuple[Admitted, Words]]:
        """Every group with the rows of it that are still there."""
        for admitted in self.admitted:
            rows = np.flatnonzero(~admitted.gone)
            if len(rows):
                yield admitted, rows
