"""Windows: the events of a stream that count at each instant, as deltas.

An output node is an input node with a size. A row is kept once for all of them (see
`window_buffers.py`); nothing is kept of windows that nothing leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.types import Kind, kind_of
from braid.jit import records
from braid.operators.core.base import Context, Held, State
from braid.operators.core.batch import Batch, Index
from braid.operators.core.columns import Rows, nulls_of
from braid.operators.core.constants import Constants, float_keys
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.nodes import Nodes, signatures
from braid.operators.core.values import Values, Words
from braid.operators.window.kernels.deltas import (
    Arrivals,
    Deltas,
    Leaving,
    forget_visits,
    write_deltas,
)
from braid.operators.window.kernels.row_slots import RowSlots
from braid.operators.window.row_slots import Slots
from braid.operators.window.spec import WindowRecipe, WindowSpec
from braid.operators.window.window_buffers import Buffer, LastRows, Members, Ranges
from braid.plan.layout import END, START
from braid.plan.specs import Shape


class WindowLogic:
    takes_sets = False
    takes_bits = False
    #: Windows do not give up.
    stopped: Mapping[int, int] = {}

    def __init__(self, spec: WindowSpec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self._layout = spec.input.layout
        self._members = Members()
        self._least = 1 if spec.kind == "rows" else 0
        self._memory = np.zeros(1, Leaving.dtype)
        self._leaving = Leaving.at(self._memory)
        self._buffer = self._make_buffer()
        #: Input nodes that have new output nodes.
        self._grown: list[Words] = []

    def _make_buffer(self) -> Buffer | None:
        spec, layout = self._spec, self._layout
        if spec.kind == "unbounded":
            return None
        if spec.kind != "rows":
            return Ranges(self._members, layout.width, self._leaving)
        kinds = [kind_of(spec.input.schema.type_of(name)) for name in spec.keys]
        assert Kind.OPAQUE not in kinds
        keys = np.empty((len(kinds), 2), np.int64)
        keys[:, 0] = [layout.column(name) for name in spec.keys]
        keys[:, 1] = [kind is Kind.FLOAT for kind in kinds]
        return LastRows(self._members, layout, keys, self._leaving)

    @property
    def output(self) -> Shape:
        return self._spec.output

    def widen(self, spec: WindowSpec) -> None:
        """Have more columns, after those that are there; nothing is held yet."""
        assert not self.instances, "rows that are held do not have the new columns"
        self._spec, self._layout = spec, spec.input.layout
        if self._buffer is not None:
            self._buffer.slots = Slots(self._layout.width)

    # ---- members ----

    @property
    def nodes(self) -> Nodes:
        return self._members.nodes

    def admit(
        self, recipe: WindowRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        source = origins[0] or nobody(constants.count)
        sizes = self._sizes(recipe, constants)
        columns = [*source.signatures.T.copy(), sizes]
        wanted = signatures("window", constants.count, columns)
        numbers, new = self._members.add(wanted, source.numbers, sizes, self._least)
        if len(new):
            self._grown.append(self._members.input_of[new])
        return origin_of(self.nodes, numbers)

    def _sizes(self, recipe: WindowRecipe, constants: Constants) -> Words:
        if recipe.size is None or self._spec.kind in ("now", "unbounded"):
            return np.zeros(constants.count, np.int64)
        if isinstance(recipe.size, int):
            return np.full(constants.count, recipe.size, np.int64)
        return np.broadcast_to(constants.words(recipe.size), (constants.count,)).copy()

    def dismiss(self, numbers: Words) -> Words:
        """Members leave; the output nodes that nobody uses any more. Rows that were only theirs
        are forgotten."""
        gone = self._members.release(numbers, self._least)
        if len(gone) and self._buffer is not None:
            self._settle()
            self._buffer.went()
        return gone

    def _settle(self) -> None:
        if self._grown and self._buffer is not None:
            self._buffer.came(np.unique(np.concatenate(self._grown)))
        self._grown = []

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        batch = seen_since(inputs[0], self._spec.membered, self._spec.birth)
        coming, order = self._members.fanout.applied(batch), np.empty(0, np.int64)
        if self._buffer is not None:
            self._settle()
            index, members = self._in_order(batch)
            if len(index):
                self._buffer.slots.reserve(len(batch.rows))
            arrivals = _arrivals(batch.rows, index, members)
            order = self._buffer.process(Arrivals.at(arrivals), bound)
        written = self._written(coming, order)
        if self._buffer is not None:
            forget_visits(self._leaving)
            self._buffer.written()
        return written

    def _in_order(self, batch: Batch) -> tuple[Index, Index]:
        """Pairs of a row and an input node; for rows, in the order that tells which are last."""
        index, members = batch.index, batch.members
        if index is None or members is None:
            index = np.arange(len(batch.rows), dtype=np.int32)
            members = np.zeros(len(index), np.int32)
        if self._spec.kind == "rows":
            spec, values = self._spec, self._context.values
            order = last_order(batch.rows, spec.input, spec.order, values)
            if order is not None:
                place = np.empty(len(order), np.int64)
                place[order] = np.arange(len(order))
                by_row = np.argsort(place[index], kind="stable")
                index, members = index[by_row], members[by_row]
        return index, members

    def _written(self, coming: Batch, order: Words) -> Batch:
        """Deltas of what comes, and of the visits in this order."""
        assert coming.index is not None
        assert coming.members is not None
        layout, leaving = self._spec.output.layout, self._leaving
        most = len(coming.index) + leaving.nodes.count
        most_rows = min(len(coming.rows), len(coming.index)) + len(order)
        rows = np.empty((most_rows, layout.width), np.int64)
        index, members = np.empty(most, np.int32), np.empty(most, np.int32)
        arrivals = _arrivals(coming.rows, coming.index, coming.members)
        deltas = records.filled(
            Deltas,
            base=self._layout.base,
            columns=len(self._layout.names),
            out_base=layout.base,
            width=layout.width,
            rows=rows.reshape(-1),
            index=index,
            members=members,
        )
        write_deltas(
            Arrivals.at(arrivals),
            leaving,
            records.Words.at(order),
            RowSlots(0) if self._buffer is None else self._buffer.slots.record,
            Deltas.at(deltas),
        )
        count, pairs = int(deltas["row_count"][0]), int(deltas["pair_count"][0])
        return Batch(rows[:count], index[:pairs], members[:pairs])

    # ---- state ----

    @property
    def saves(self) -> bool:
        return self._buffer is not None

    def snapshot(self) -> State:
        if self._buffer is None:
            return {}
        self._settle()
        return self._buffer.snapshot()

    def restore(self, state: State) -> None:
        """Take up saved rows; members are there already, under whatever numbers."""
        if self._buffer is not None:
            self._settle()
            self._buffer.restore(state)

    def held(self) -> Held | None:
        if self._buffer is None:
            return None
        slots = self._buffer.slots
        types = tuple(a.type for a in self._spec.input.schema)
        return Held(slots.rows[slots.places()], self._layout, types)

    def replace_held(self, rows: Rows) -> None:
        assert self._buffer is not None
        slots = self._buffer.slots
        slots.rows[slots.places()] = rows
        self._buffer.recoded()

    def forget_codes(self) -> None:
        """Codes are in the rows that are kept, and nowhere else."""

    @property
    def instances(self) -> int:
        """The rows that are kept."""
        return 0 if self._buffer is None else self._buffer.slots.live

    @property
    def state_bytes(self) -> int:
        return 0 if self._buffer is None else self._buffer.nbytes

    @property
    def index_bytes(self) -> int:
        return self._members.nbytes + (0 if self._buffer is None else self._buffer.index_bytes)

    def describe(self) -> dict[str, Any]:
        living = self.nodes.uses[: self.nodes.high] > 0
        found: dict[str, Any] = {"windows": self.nodes.count, "rows": self.instances}
        if self._spec.kind in ("range", "rows"):
            sizes = self._members.size_of[: self.nodes.high][living]
            found["sizes"] = len(np.unique(sizes))
            found["longest"] = int(sizes.max()) if len(sizes) else None
        return found if self._buffer is None else {**found, **self._buffer.describe()}


def _arrivals(rows: Rows, index: Index, members: Index) -> np.ndarray:
    """Rows, and pairs of a row and a node, for kernels; all three must outlive it."""
    events, width = rows.reshape(-1), rows.shape[1]
    return records.filled(Arrivals, events=events, width=width, index=index, members=members)


def seen_since(batch: Batch, membered: bool, birth: int | None) -> Batch:
    """The events that start at the birth or later, in order of `end`."""
    if not membered or batch.index is None or batch.members is None:
        rows = batch.alone()
        if birth is not None:
            rows = rows[rows[:, START] >= birth]
        if not _is_sorted(rows[:, END]):
            rows = rows[np.argsort(rows[:, END], kind="stable")]
        return Batch(np.ascontiguousarray(rows))
    rows, index, members = np.ascontiguousarray(batch.rows), batch.index, batch.members
    if birth is not None:
        seen = rows[index, START] >= birth
        index, members = index[seen], members[seen]
    if not _is_sorted(rows[:, END]):
        order = np.argsort(rows[:, END], kind="stable")
        rows, place = rows[order], np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        by_row = np.argsort(place[index], kind="stable")
        index, members = place[index][by_row], members[by_row]
    return Batch(rows, index, members)


def _is_sorted(words: Words) -> bool:
    return bool((words[1:] >= words[:-1]).all())


# ---- which of the events of one instant are the last ----


def last_order(rows: Rows, shape: Shape, names: Sequence[str], values: Values) -> Words | None:
    """The order of rows that are sorted by `end`: within one `end` by the named columns, one
    after the other, NULL first, NaN last. None if it is as they lie."""
    ends = rows[:, END]
    change = ends[1:] != ends[:-1]
    if change.all():
        return None
    order = np.arange(len(rows), dtype=np.int64)
    group, active = _tied(np.concatenate([[True], change]), order)
    for name in names:
        if not len(active):
            break
        ranks, valid = _ranks(rows[order[active]], shape, name, values)
        by_rank = np.lexsort((ranks, valid, group))
        order[active] = order[active[by_rank]]
        ranks, valid = ranks[by_rank], valid[by_rank]
        change = np.ones(len(active), np.bool_)
        change[1:] = (
            (group[1:] != group[:-1]) | (ranks[1:] != ranks[:-1]) | (valid[1:] != valid[:-1])
        )
        group, active = _tied(change, active)
    return order


def _tied(change: np.ndarray, active: Words) -> tuple[Words, Words]:
    """Groups of more than one: `change` says where a group begins."""
    group = np.cumsum(change)
    some = np.bincount(group)[group] > 1
    return group[some], active[some]


def _ranks(rows: Rows, shape: Shape, name: str, values: Values) -> tuple[Words, np.ndarray]:
    """Integers in the order of a column's values, 0 for NULL; and which are not NULL."""
    layout, type_ = shape.layout, shape.schema.type_of(name)
    column, kind = layout.column(name), kind_of(type_)
    words = np.ascontiguousarray(rows[:, layout.base + column])
    nulls = nulls_of(rows, column)
    valid = np.ones(len(rows), np.bool_) if nulls is None else ~nulls
    ranks = np.zeros(len(rows), np.int64)
    if kind is Kind.NULL or not valid.any():
        return ranks, np.zeros(len(rows), np.bool_)
    known = words[valid]
    if kind is Kind.FLOAT:
        known = float_keys(known)
    elif kind is Kind.STRING:
        codes, places = np.unique(known, return_inverse=True)
        texts = values.strings.array(codes, None).cast(pa.binary())
        by_text = np.empty(len(codes), np.int64)
        by_text[pc.sort_indices(texts).to_numpy()] = np.arange(len(codes))
        known = by_text[places]
    elif kind is Kind.OPAQUE:
        known = carried_ranks(values.store(type_).array(known, None))
    ranks[valid] = known
    return ranks, valid


def carried_ranks(array: pa.Array) -> Words:
    """The order of values that are only carried; equal values have equal ranks."""
    keys = [carried_key(value) for value in array.to_pylist()]
    numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([numbers[key] for key in keys], np.int64)


def carried_key(value: Any) -> tuple[Any, ...]:
    """A key in the order of values: NULL first, NaN last, lists and structs by what they have."""
    if value is None:
        return (0,)
    if isinstance(value, float) and value != value:
        return (2,)
    if isinstance(value, dict):
        return (1, tuple(carried_key(v) for v in value.values()))
    if isinstance(value, list | tuple):
        return (1, tuple(carried_key(v) for v in value))
    return (1, value)
