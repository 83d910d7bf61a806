"""The registry of the queries in a plan: their numbers, ids, routes, nodes and births.

The executor works with numbers, users with ids. The registry maps one to the other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.schema import Schema, shown_names
from braid.engine.io.results import Shown
from braid.operators.core.columns import Rows
from braid.operators.core.result_tables import ResultForm
from braid.operators.core.subscribers import Subscribers
from braid.operators.core.values import Values, Words
from braid.plan.layout import Layout
from braid.plan.routes import Exit, Route


class Form(NamedTuple):
    """What a query shows of an exit: its attributes, and the column of the channel that each is."""

    schema: Schema
    columns: tuple[str, ...]


#: What the outputs of queries have in common that share an exit point.
ExitKey = tuple[str, str | None, pa.DataType, Form | None]


def exit_key(exit_: Exit) -> ExitKey:
    """Results that are not published can be of any form: each query picks its columns of the rows that
    come out. The events of a published stream have one form."""
    form = None if exit_.stream is None else Form(exit_.schema, exit_.columns)
    return exit_.channel, exit_.stream, exit_.time_type, form


@dataclass
class ExitPoint:
    """The output of all queries that share a channel and a published stream."""

    channel: str
    stream: str | None
    time_type: pa.DataType
    #: What the queries show, and a number for each form.
    forms: dict[Form, int]
    subscribers: Subscribers = field(default_factory=Subscribers)
    #: All its queries are removed. A new query gets a new exit.
    gone: bool = False
    #: It stays without queries: others read a prepared query that has no members.
    stays: bool = False
    _tables: ResultForm | None = None
    _shown: tuple[Shown, ...] = ()

    @staticmethod
    def of(exit_: Exit) -> ExitPoint:
        return ExitPoint(exit_.channel, exit_.stream, exit_.time_type, {}).with_form(exit_)

    def with_form(self, exit_: Exit) -> ExitPoint:
        """The same exit, which has queries that show this."""
        form = Form(exit_.schema, exit_.columns)
        if form not in self.forms:
            self.forms[form] = len(self.forms)
            self._tables = None
        return self

    @property
    def form(self) -> Form:
        """The first form, which is the only one of a published stream."""
        return next(iter(self.forms))

    @property
    def names(self) -> tuple[str, ...]:
        """All attributes that queries show."""
        return tuple(dict.fromkeys(name for form in self.forms for name in form.schema.names))

    def table(self, rows: Rows, layout: Layout, values: Values) -> pa.Table:
        """The columns that some query shows of these rows; `shown` says which are whose."""
        if self._tables is None or self._tables.layout is not layout:
            self._tables = self._result_tables(layout)
        return self._tables.table(rows, values)

    @property
    def shown(self) -> tuple[Shown, ...]:
        """What each form shows of a table of this exit."""
        return self._shown

    def _result_tables(self, layout: Layout) -> ResultForm:
        if len(self.forms) == 1:
            schema, columns = self.form
        else:
            found = {
                c: a.type for f in self.forms for c, a in zip(f.columns, f.schema, strict=True)
            }
            schema, columns = Schema.of(found.items()), tuple(found)
        places = {column: place for place, column in enumerate(columns)}
        self._shown = tuple(
            Shown(shown_names(form.schema.names), [0, 1, *(2 + places[c] for c in form.columns)])
            for form in self.forms
        )
        return ResultForm(layout, schema, self.time_type, columns)


@dataclass
class Admitted:
    """Queries of one template that were admitted together, in order of their numbers.

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
        """The rows of registered queries whose ids are in the range `low` <= id < `high`."""
        first, last = self._place(low.encode()), self._place(high.encode())
        return [row for row in self._order[first:last].tolist() if not self.gone[row]]

    def rows_of(self, names: pa.StringArray) -> Words:
        """The row of each of these ids; -1 if it is not registered.

        All names are searched at once, one bisection step at a time: reading one id from Python
        takes as long as reading a hundred in one Arrow call.
        """
        low = np.zeros(len(names), np.int64)
        high = np.full(len(names), len(self.ids), np.int64)
        while (searching := low < high).any():
            middle = (low + high) >> 1
            rows = self._order[np.minimum(middle, len(self.ids) - 1)]
            before = pc.less(self.ids.take(pa.array(rows)), names).to_numpy(zero_copy_only=False)
            low = np.where(searching & before, middle + 1, low)
            high = np.where(searching & ~before, middle, high)
        rows = self._order[np.minimum(low, len(self.ids) - 1)].astype(np.int64)
        same = pc.equal(self.ids.take(pa.array(rows)), names).to_numpy(zero_copy_only=False)
        return np.where(same & ~self.gone[rows], rows, -1)

    def _place(self, name: bytes) -> int:
        """The position of a name in the order of the ids, which is the order of their bytes."""
        return bisect_left(self._order, name, key=lambda row: self.ids[int(row)].as_py().encode())


#: Groups of at least this size are searched by the order of their ids, without an index.
MANY = 4_096


class QueryRegistry:
    """All queries by number. The numbers of removed queries are reused."""

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
        #: Changes with every query that is added or removed.
        self.version = 0

    def new_numbers(self, count: int) -> int:
        """Reserve `count` consecutive numbers and return the first."""
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
        parts = [admitted.ids.take(pa.array(rows)) for admitted, rows in self.grouped(numbers)]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.string())

    def forms_of(self, numbers: Words, point: ExitPoint) -> Words:
        """Which form each of these queries, in order of their numbers, has at an exit."""
        forms = np.zeros(len(numbers), np.int64)
        first = 0
        for admitted, rows in self.grouped(numbers) if len(point.forms) > 1 else ():
            place = next(k for k, other in enumerate(admitted.exits) if other is point)
            exit_ = admitted.route.exits[place]
            forms[first : first + len(rows)] = point.forms[Form(exit_.schema, exit_.columns)]
            first += len(rows)
        return forms

    def grouped(self, numbers: Words) -> Iterator[tuple[Admitted, Words]]:
        """Sorted numbers by group: each group of queries with the rows of it that they name."""
        if not len(numbers):
            return
        groups = np.searchsorted(np.array(self._firsts, np.int64), numbers, "right") - 1
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        for group, own in zip(groups[starts], np.split(numbers, starts[1:]), strict=True):
            admitted = self.admitted[group]
            yield admitted, own - admitted.first

    def numbers_of_all(self, queries: Sequence[str]) -> list[int]:
        """The numbers of queries, or of all members of prepared ones; each once."""
        self._index()
        found = {n: None for query in queries if (n := self._by_id.get(query)) is not None}
        left = [query for query in queries if query not in self._by_id]
        for admitted in self._large.values():
            if left:
                rows = admitted.rows_of(pa.array(left, pa.string()))
                found |= dict.fromkeys((admitted.first + rows[rows >= 0]).tolist())
                left = [query for query, row in zip(left, rows.tolist(), strict=True) if row < 0]
        for query in left:
            found |= dict.fromkeys(self.numbers_of(query))
        return list(found)

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

    def _index(self) -> None:
        """Index the groups that were added since the last lookup."""
        for admitted in self._unindexed:
            if len(admitted.ids) >= MANY:
                if not admitted.gone.all():
                    self._large[admitted.first] = admitted
                continue
            for row, name in enumerate(admitted.ids.to_pylist()):
                if not admitted.gone[row]:
                    self._by_id[name] = admitted.first + row
        self._unindexed = []

    def _number(self, query: str) -> int | None:
        self._index()
        number = self._by_id.get(query)
        if number is not None:
            return number
        for admitted in self._large.values():
            for row in admitted.rows_between(query, f"{query}\0"):
                return admitted.first + row
        return None

    def forget(self, numbers: Sequence[int]) -> None:
        groups = list(self.grouped(np.unique(np.asarray(numbers, np.int64))))
        for admitted, rows in groups:
            admitted.gone[rows] = True
            names = admitted.ids.take(pa.array(rows)).to_pylist()
            for name, row in zip(names, rows.tolist(), strict=True):
                if self._by_id.get(name) == admitted.first + row:
                    del self._by_id[name]
        self.count -= len(numbers)
        self.version += 1
        for admitted, _ in groups:
            first = admitted.first
            if admitted.gone.all():
                self._large.pop(first, None)
                place = bisect_right(self._firsts, first) - 1
                del self.admitted[place], self._firsts[place]
                self._free.setdefault(len(admitted.ids), []).append(first)

    def living(self) -> Iterator[tuple[Admitted, Words]]:
        """Every group with the rows of its queries that are not removed."""
        for admitted in self.admitted:
            rows = np.flatnonzero(~admitted.gone)
            if len(rows):
                yield admitted, rows
