"""Rings that several forms of a join share: an event is held once, with an index for each way of
comparing that some form asks for.

The columns of events grow at the end, so that those that a form knows stay where they are. All
inputs are without members: every event is everybody's, and sets of nodes are in no ring.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from braid.operators.core.columns import Rows, nulls_of, set_nulls
from braid.operators.core.values import Words
from braid.operators.join.probe_orders import Key, Lookup
from braid.operators.join.ring_state import Rings
from braid.operators.join.state import columns_of
from braid.plan.layout import MASK, Layout
from braid.plan.specs import Shape


class SharedRings(Rings):
    """The rings and their indexes. An index is known by its input and the columns in it."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.views: list[RingView] = []
        self._uses: dict[int, int] = {}
        super().__init__(shapes, (), [() for _ in shapes])

    def _compared(self, number: int, shape: Shape) -> Words:
        """The first index is of the first column; it grows with the ring, and the others with it."""
        return columns_of([(0, shape.schema.attributes[0].type)])

    def _band_of(self, lookup: Lookup | int) -> int | None:
        return None

    def _point(self) -> None:
        super()._point()
        for view in self.views:
            view.follow_indexes()

    @property
    def indexes(self) -> np.ndarray:
        return self._indexes

    @property
    def stores(self) -> tuple[np.ndarray, np.ndarray]:
        return self._stores, self._pool

    def take_index(self, store: int, columns: Words) -> int:
        """The number of an index; one use more of it."""
        first = self._numbers[store]
        if np.array_equal(self._columns[first], columns):
            return first
        what = (store, tuple(columns.tolist()))
        if what not in self._numbers:
            self._add_index(what, store, columns)
        number = self._numbers[what]
        self._uses[number] = self._uses.get(number, 0) + 1
        return number

    def give_index(self, number: int) -> None:
        """One use less of an index; without uses it goes."""
        if number not in self._uses:
            return
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number]
            what = next(known for known, n in self._numbers.items() if n == number)
            assert not isinstance(what, int)
            self._drop_index(what)

    def grow(self, shapes: Sequence[Shape]) -> None:
        """Have events of more columns; nothing is held."""
        self._shapes = shapes
        for store, shape in zip(self._stores, shapes, strict=True):
            self._lay_out(store, shape)

    def reach(self, views: Iterable[RingView]) -> None:
        """Hold events for as long as the longest window of these views is."""
        longest = np.full(len(self._shapes), -1, np.int64)
        for view in views:
            np.maximum(longest, view.longest, out=longest)
        self._covers["longest"] = longest

    def ways(self) -> list[int]:
        """How many indexes each input has."""
        stores = [what if isinstance(what, int) else what[0] for what in self._numbers]
        return np.bincount(stores, minlength=len(self._shapes)).tolist()


class RingView(Rings):
    """Shared rings as one form of the join knows them: its own probes, its own windows."""

    def __init__(
        self,
        shared: SharedRings,
        shapes: Sequence[Shape],
        keys: Sequence[Key],
        netted: Sequence[Sequence[str]],
    ) -> None:
        self._shared = shared
        super().__init__(shapes, keys, netted)
        shared.views.append(self)

    def _make_stores(self) -> tuple[np.ndarray, np.ndarray]:
        return self._shared.stores

    def _point(self) -> None:
        self._indexes = self._shared.indexes
        super()._point()

    def follow_indexes(self) -> None:
        """The indexes lie elsewhere now."""
        self._point()

    def _add_index(self, what: Lookup | int, store: int, columns: Words) -> None:
        self._numbers[what] = self._shared.take_index(store, columns)
        self._point()

    def _drop_index(self, lookup: Lookup) -> None:
        self._shared.give_index(self._numbers.pop(lookup))

    def first_probe(self, driver: int) -> tuple[int, ...]:
        """The words of a `FirstProbe`."""
        step = self._steps[driver][0]
        key = self._keys[0]
        column, how, not_null = key.columns[driver][0], key.how, int(not key.null_safe)
        return self.frame.address, len(self._keys), int(step["index"]), column, how, not_null

    @property
    def longest(self) -> np.ndarray:
        return self._covers["longest"]

    def leave(self) -> None:
        """The form is gone, and needs no index any more."""
        self._shared.views.remove(self)
        for number in self._numbers.values():
            self._shared.give_index(number)

    # What is held is not its own.

    def forget(self) -> None:
        """Others may need what is held."""

    def purge(self, gone: Words) -> None:
        """No event has a set of nodes."""

    def release(self) -> None:
        """The memory is that of the shared rings."""

    @property
    def roomy(self) -> bool:
        return False


def with_columns(rows: Rows, names: Sequence[str], wanted: Sequence[str]) -> Rows:
    """Rows with these columns instead of those that they have; new ones are NULL."""
    source, target = Layout(tuple(names)), Layout(tuple(wanted))
    out = np.zeros((len(rows), target.width), np.int64)
    out[:, :MASK] = rows[:, :MASK]
    for column, name in enumerate(wanted):
        if name in names:
            known = source.column(name)
            out[:, target.base + column] = rows[:, source.base + known]
            set_nulls(out, column, nulls_of(rows, known))
        else:
            set_nulls(out, column, np.ones(len(rows), np.bool_))
    return out
