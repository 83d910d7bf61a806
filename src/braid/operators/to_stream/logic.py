"""Istream, Dstream and Rstream: streams of what comes to a relation, what goes, and what is there.

The differences of a relation are by value: a row that comes at the instant at which an equal one
goes is no change. So the weights of equal rows of one instant are netted first (`consolidated`,
which is there for other m-ops as well).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from braid.algebra.types import Kind, kind_of
from braid.errors import damaged
from braid.jit import memory, records
from braid.operators.core import checks
from braid.operators.core.base import Context, Held, State
from braid.operators.core.batch import Batch
from braid.operators.core.bit_sets import BitSets, is_set
from braid.operators.core.columns import Rows, nulls_of
from braid.operators.core.constants import Constants
from braid.operators.core.fanout import Fanout
from braid.operators.core.kernels.instances import FREE
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.nodes import Nodes, grown, signatures
from braid.operators.core.values import Values, Words
from braid.operators.join.state import packed
from braid.operators.stream.encode import in_order
from braid.operators.to_stream.kernels import consolidate as kernel
from braid.operators.to_stream.kernels.consolidate import Bags, Entry
from braid.operators.to_stream.spec import ToStreamSpec
from braid.operators.window.logic import carried_key, carried_ranks
from braid.operators.window.row_slots import Slots
from braid.plan.deltas import BEFORE
from braid.plan.layout import END, START
from braid.plan.specs import Shape

#: Columns of entries; the first ones are saved.
_SLOT, _BAG, _COUNT = (Entry.word(name) for name in ("slot", "bag", "count"))
_SAVED, _ENTRY_WORDS = _COUNT + 1, Entry.stride // 8


class Netted(NamedTuple):
    """Rows of a batch, the weight of each, and pairs as a batch has them."""

    sources: Words
    weights: Words
    pairs: np.ndarray | None
    members: np.ndarray | None


@lru_cache(maxsize=1024)
def _columns(shape: Shape) -> Words:
    """The record of the columns that are compared, without the weight; then which are floats."""
    kinds = [kind_of(attribute.type) for attribute in shape.schema][:-1]
    floats = [kind is Kind.FLOAT for kind in kinds]
    words = np.array([0] * (kernel.Columns.stride // 8) + floats, np.int64)
    columns = kernel.Columns.at(words)
    columns.base, columns.count = shape.layout.base, len(floats)
    columns.floats = records.Words(columns + kernel.Columns.stride)
    return words


def _comparable(rows: Rows, shape: Shape, values: Values) -> Rows:
    """The rows with equal words for equal values that are only carried."""
    carried = [k for k, a in enumerate(shape.schema) if kind_of(a.type) is Kind.OPAQUE]
    if not carried or not len(rows):
        return rows
    rows = rows.copy()
    for column in carried:
        nulls = nulls_of(rows, column)
        word, type_ = shape.layout.base + column, shape.schema.attributes[column].type
        array = values.store(type_).array(rows[:, word], nulls)
        rows[:, word] = carried_ranks(array)
    return rows


def netted(batch: Batch, shape: Shape, values: Values) -> Netted:
    """The net weights of equal rows of one instant, for each node, without those that are 0.

    A row of the batch stands for all that are equal to it; it is there once for each weight that
    some node has. `shape` is that of the delta channel, whose rows are in order of `end`.
    """
    weights = np.ascontiguousarray(batch.rows[:, -1])
    rows = np.ascontiguousarray(_comparable(batch.rows, shape, values))
    heads, following = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    count = kernel.group_rows(rows, _columns(shape), heads, following)
    if count == len(rows):
        return Netted(np.arange(count), weights, batch.index, batch.members)
    if batch.index is None or batch.members is None:
        nets = kernel.net_rows(weights, heads, following, count)
        return Netted(heads[:count][nets != 0], nets[nets != 0], None, None)
    size = len(batch.index)
    sources, nets = np.empty(size, np.int64), np.empty(size, np.int64)
    index, members = np.empty(size, np.int32), np.empty(size, np.int32)
    found, pairs = kernel.net_pairs(
        weights,
        heads,
        following,
        count,
        batch.index,
        batch.members,
        sources,
        nets,
        index,
        members,
    )
    return Netted(sources[:found], nets[:found], index[:pairs], members[:pairs])


def equal_to_others(batch: Batch, shape: Shape, values: Values) -> np.ndarray:
    """Which rows of a delta channel are equal to another one of the same instant."""
    rows = np.ascontiguousarray(_comparable(batch.rows, shape, values))
    heads, following = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    count = kernel.group_rows(rows, _columns(shape), heads, following)
    equal = np.zeros(len(rows), np.bool_)
    if count < len(rows):
        equal[:] = True
        equal[heads[:count][following[heads[:count]] < 0]] = False
    return equal


def consolidated(batch: Batch, shape: Shape, values: Values) -> Batch:
    """The same deltas, in which no node has equal rows at one instant, nor a row of weight 0."""
    if len(batch.rows) < 2:
        return batch
    net = netted(batch, shape, values)
    if len(net.sources) == len(batch.rows) and net.pairs is batch.index:
        return batch
    rows = batch.rows[net.sources]
    rows[:, -1] = net.weights
    return Batch(rows, net.pairs, net.members)


def _without_weight(rows: Rows, source: Shape, target: Shape) -> Rows:
    """Point events of deltas."""
    columns = len(target.layout.names)
    out = np.empty((len(rows), target.layout.width), np.int64)
    base = target.layout.base
    out[:, :base] = rows[:, :base]
    out[:, base:] = rows[:, source.layout.base : source.layout.base + columns]
    return out


class ToStreamLogic:
    takes_sets = False
    takes_bits = True
    #: A stream of a relation does not give up.
    stopped: Mapping[int, int] = {}

    def __init__(self, spec: ToStreamSpec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self.nodes = Nodes()
        self._fanouts = [Fanout() for _ in range(1 + len(spec.streams))]
        self._multisets = Multisets(spec.input, context.values) if spec.kind == "Rstream" else None
        #: Nodes that go on under their own numbers, as bits, if all do; False: not known.
        self._same: Words | bool | None = False

    # ---- members ----

    def admit(self, recipe: Any, constants: Constants, origins: Sequence[Origin | None]) -> Origin:
        sides = [origin or nobody(constants.count) for origin in origins]
        columns = [column for side in sides for column in side.signatures.T.copy()]
        numbers, rows = self.nodes.add(signatures("to stream", constants.count, columns))
        for side, fanout in zip(sides, self._fanouts, strict=True):
            fanout.add(side.numbers[rows], numbers[rows])
        self._same = False
        if self._multisets is not None:
            self._multisets.admit(sides[0], numbers)
        return origin_of(self.nodes, numbers)

    def dismiss(self, numbers: Words) -> Words:
        gone = self.nodes.release(numbers)
        for fanout in self._fanouts:
            fanout.remove(gone)
        self._same = False
        if self._multisets is not None:
            self._multisets.dismiss(numbers)
        return gone

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        batches = [
            batch if membered else Batch(batch.alone())
            for batch, membered in zip(inputs, self._spec.membered, strict=True)
        ]
        if self._multisets is not None:
            return self._all_rows(self._multisets, batches)
        return self._changes(batches[0])

    def _changes(self, batch: Batch) -> Batch:
        same = self._same_nodes() if isinstance(batch.sets, BitSets) else None
        if same is None:
            return self._difference(self._fanouts[0].applied(batch.spelled()))
        return self._difference_of_sets(batch, same)

    def _same_nodes(self) -> Words | None:
        if isinstance(self._same, bool):
            nodes = self._fanouts[0].same()
            words = 1 + self.nodes.high // 64
            self._same = None if nodes is None else packed(nodes, words)
        return self._same

    def _difference(self, batch: Batch) -> Batch:
        """What comes, or what goes: as many copies as the net weight says."""
        spec = self._spec
        sources, weights, index, members = netted(batch, spec.input, self._context.values)
        assert index is not None
        assert members is not None
        copies = np.maximum(weights if spec.kind == "Istream" else -weights, 0)
        copies[batch.rows[sources, END] == BEFORE] = 0  # what was there before time is no news
        if not (copies == 1).all():
            index, members, sources = _repeated(index, members, sources, copies)
        rows = _without_weight(batch.rows[sources], spec.input, spec.output)
        return Batch(rows, index, members).compact()

    def _difference_of_sets(self, batch: Batch, same: Words) -> Batch:
        """The same without spelling sets out, but of rows that are equal to another of their
        instant. `same`: the nodes that go on, as bits."""
        spec, index, members, sets = self._spec, batch.index, batch.members, batch.sets
        assert index is not None
        assert members is not None
        assert isinstance(sets, BitSets)
        equal = equal_to_others(batch, spec.input, self._context.values)
        sign = 1 if spec.kind == "Istream" else -1
        copies = np.where(equal, 0, np.maximum(sign * batch.rows[:, -1], 0))
        single = ~is_set(members)
        places = np.where(single, members, 0)
        kept = ~single | (((same[places >> 6] >> (places & 63)) & 1) != 0)
        every = np.arange(len(batch.rows))
        own, whose, sources = _repeated(index[kept], members[kept], every, copies)
        rows = _without_weight(batch.rows[sources], spec.input, spec.output)
        alone = Batch(rows, own, whose, sets.within(same))
        if not equal.any():
            return alone
        chosen = equal[index]
        others = Batch(batch.rows, index[chosen], members[chosen], sets).spelled().compact()
        return _together(alone, self._difference(self._fanouts[0].applied(others)))

    def _all_rows(self, multisets: Multisets, batches: Sequence[Batch]) -> Batch:
        instants, speakers = [], []
        for fanout, batch in zip(self._fanouts[1:], batches[1:], strict=True):
            spoken = fanout.applied(batch)
            assert spoken.index is not None
            assert spoken.members is not None
            index, members = spoken.index, spoken.members
            if self._spec.birth is not None:
                seen = spoken.rows[index, START] >= self._spec.birth
                index, members = index[seen], members[seen]
            instants.append(spoken.rows[index, END])
            speakers.append(members.astype(np.int64))
        times, nodes = np.concatenate(instants), np.concatenate(speakers)
        order = np.lexsort((nodes, times))
        times, nodes = times[order], nodes[order]
        new = np.ones(len(times), np.bool_)
        new[1:] = (times[1:] != times[:-1]) | (nodes[1:] != nodes[:-1])
        return multisets.follow(batches[0], times[new], nodes[new], self._spec.output)

    # ---- state ----

    @property
    def saves(self) -> bool:
        return self._multisets is not None

    def snapshot(self) -> State:
        return {} if self._multisets is None else self._multisets.snapshot()

    def restore(self, state: State) -> None:
        if self._multisets is not None:
            self._multisets.restore(state)

    def held(self) -> Held | None:
        if self._multisets is None:
            return None
        slots = self._multisets.slots
        types = tuple(a.type for a in self._spec.input.schema)
        return Held(slots.rows[slots.places()], self._spec.input.layout, types)

    def replace_held(self, rows: Rows) -> None:
        assert self._multisets is not None
        slots = self._multisets.slots
        slots.rows[slots.places()] = rows
        self._multisets.reindex()

    def forget_codes(self) -> None:
        """Codes are in the rows that are kept, and nowhere else."""

    @property
    def instances(self) -> int:
        """The distinct rows that are kept."""
        return 0 if self._multisets is None else self._multisets.slots.live

    @property
    def state_bytes(self) -> int:
        return 0 if self._multisets is None else self._multisets.nbytes

    @property
    def index_bytes(self) -> int:
        own = self.nodes.nbytes + sum(fanout.nbytes for fanout in self._fanouts)
        return own + (0 if self._multisets is None else self._multisets.index_bytes)

    def describe(self) -> dict[str, Any]:
        found: dict[str, Any] = {"streams": self.nodes.count}
        if self._multisets is not None:
            found |= {"relations": self._multisets.bags.count, "rows": self.instances}
        return found


def _together(first: Batch, second: Batch) -> Batch:
    """The events of both in order; sets are those of the first."""
    assert first.index is not None
    assert first.members is not None
    assert second.index is not None
    assert second.members is not None
    return in_order(
        np.concatenate([first.rows, second.rows]),
        np.concatenate([first.index, second.index + np.int32(len(first.rows))]),
        np.concatenate([first.members, second.members]),
        first.sets,
    )


def _repeated(
    index: np.ndarray, members: np.ndarray, sources: Words, copies: Words
) -> tuple[np.ndarray, np.ndarray, Words]:
    """So many copies of each row, each with the row's pairs."""
    if copies.sum(dtype=np.float64) > checks.NUMBERS:  # `repeat` does not see that they overflow
        raise MemoryError("there are too many copies of rows")
    per_row = np.bincount(index, minlength=len(sources))
    starts = np.cumsum(per_row) - per_row
    rows = np.repeat(np.arange(len(sources)), copies)
    sizes = per_row[rows]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    pairs = np.arange(total) + np.repeat(starts[rows] - (ends - sizes), sizes)
    made = np.repeat(np.arange(len(rows), dtype=np.int32), sizes)
    return made, members[pairs], sources[rows]


class Multisets:
    """The rows that are there, for each node of a delta channel: each row once for all."""

    def __init__(self, shape: Shape, values: Values) -> None:
        self._shape = shape
        self._values = values
        #: For each column of values that are only carried: the code that stands for a value.
        self._carried: dict[int, dict[Any, int]] = {
            k: {} for k, a in enumerate(shape.schema) if kind_of(a.type) is Kind.OPAQUE
        }
        self._columns = _columns(shape)
        self.slots = Slots(shape.layout.width)
        self.bags = Nodes()
        self._bag_of: Words = np.full(8, -1, np.int64)
        self._bag_of_node: Words = np.full(8, -1, np.int64)
        self._source_of_bag: Words = np.zeros(8, np.int64)
        self._hashes: Words = np.zeros(8, np.int64)
        self._table: Words = np.full(16, -1, np.int64)
        self._entries: Rows = np.zeros((8, _ENTRY_WORDS), np.int64)
        self._entry_table: Words = np.full(16, -1, np.int64)
        self._heads: Words = np.full(8, -1, np.int64)
        #: The words of the record of the bags.
        self._words: Words = np.zeros(Bags.stride // 8, np.int64)
        Bags.at(self._words).entry_free = -1

    def _record(self) -> Bags:
        """The record of the bags with where everything is now: arrays move when they grow."""
        slots, bags = self.slots, Bags.at(self._words)
        bags.slots = slots.record
        bags.hashes, bags.table = records.Words.at(self._hashes), records.Words.at(self._table)
        bags.mask, bags.entries = len(self._table) - 1, Entry.at(self._entries)
        bags.entry_table = records.Words.at(self._entry_table)
        bags.entry_mask = len(self._entry_table) - 1
        bags.heads = records.Words.at(self._heads)
        bags.columns = kernel.Columns.at(self._columns)
        return bags

    # ---- members ----

    def admit(self, source: Origin, numbers: Words) -> None:
        if not len(numbers):
            return
        bags, rows = self.bags.add(source.signatures)
        self._bag_of = grown(self._bag_of, int(source.numbers.max()) + 1, -1)
        self._bag_of_node = grown(self._bag_of_node, int(numbers.max()) + 1, -1)
        self._source_of_bag = grown(self._source_of_bag, self.bags.high)
        self._heads = grown(self._heads, self.bags.high, -1)
        self._bag_of[source.numbers] = bags
        self._bag_of_node[numbers] = bags
        self._source_of_bag[bags[rows]] = source.numbers[rows]

    def dismiss(self, numbers: Words) -> None:
        gone = self.bags.release(self._bag_of_node[numbers])
        if len(gone):
            self._bag_of[self._source_of_bag[gone]] = -1
            kernel.empty_bags(records.Words.at(gone), len(gone), self._record())
            self.bags.retire(gone)

    # ---- events ----

    def follow(self, batch: Batch, times: Words, nodes: Words, output: Shape) -> Batch:
        """Take deltas in; at each time, all rows of a node."""
        index, members = batch.index, batch.members
        if index is None or members is None:
            index = np.arange(len(batch.rows), dtype=np.int32)
            members = np.zeros(len(index), np.int32)
        self._reserve(len(batch.rows), len(index))
        self._record()
        width = output.layout.width
        out, count, pairs_at, told = kernel.follow_bags(
            np.ascontiguousarray(self._known(batch.rows)),
            index,
            members,
            self._bag_of,
            times,
            nodes,
            self._bag_of_node[nodes],
            output.layout.base,
            self._words,
            np.zeros(len(self.slots.rows), np.int64),
            np.empty(len(self.slots.rows), np.int64),
        )
        rows = memory.taken(out, count * width).reshape(-1, width)
        pairs = memory.taken(pairs_at, told)
        return Batch(rows, (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32))

    def _known(self, rows: Rows) -> Rows:
        """The rows, with the codes of equal values that are already there."""
        for column, codes in self._carried.items():
            if len(codes) > 1024 + 2 * self.slots.live:
                codes.clear()
                self._learn(self.slots.rows[self.slots.places()], column)
            rows = self._learn(rows, column)
        return rows

    def _learn(self, rows: Rows, column: int) -> Rows:
        codes, word = self._carried[column], self._shape.layout.base + column
        store = self._values.store(self._shape.schema.attributes[column].type)
        found = store.array(rows[:, word], nulls_of(rows, column)).to_pylist()
        rows = rows.copy()
        rows[:, word] = [
            codes.setdefault(carried_key(value), code)
            for value, code in zip(found, rows[:, word].tolist(), strict=True)
        ]
        return rows

    def _reserve(self, rows: int, pairs: int) -> None:
        self.slots.reserve(rows)
        self._hashes = grown(self._hashes, len(self.slots.rows))
        bags = Bags.at(self._words)
        live = bags.entry_live + pairs
        self._entries = grown(self._entries, max(live, bags.entry_high))
        slots = self.slots.live + rows
        if 2 * slots > len(self._table) or 2 * live > len(self._entry_table):
            self._table = np.empty(_table_size(slots), np.int64)
            self._entry_table = np.empty(_table_size(live), np.int64)
            kernel.index_bags(self._record(), self.slots.record.high, False)

    def reindex(self) -> None:
        """The words of rows have changed."""
        for column, codes in self._carried.items():
            codes.clear()
            self._learn(self.slots.rows[self.slots.places()], column)
        kernel.index_bags(self._record(), self.slots.record.high, True)

    # ---- state ----

    def snapshot(self) -> State:
        entries = self._entries[: Bags.at(self._words).entry_high, :_SAVED]
        return {
            "rows": self.slots.saved(),
            "entries": entries.copy(),
            "bags": self.bags.signatures[: self.bags.high].copy(),
        }

    def restore(self, state: State) -> None:
        width = self._shape.layout.width
        rows = checks.table(state, "rows", width)
        entries = checks.table(state, "entries", _SAVED)
        known = self.bags.find(checks.table(state, "bags", 2))
        entries = entries[entries[:, _COUNT] != 0]
        checks.within(entries[:, _BAG], 0, len(known), "relations of rows")
        checks.within(entries[:, _SLOT], 0, len(rows), "slots of rows")
        counts = entries[:, _COUNT]
        checks.within(counts, -checks.MOST, checks.MOST, "how often rows are there")
        if (rows[entries[:, _SLOT], END] == FREE).any():
            raise damaged("a slot without a row is used")
        self.slots.load(rows.copy())
        bags = known[entries[:, _BAG]]
        kept = entries[bags >= 0]
        self._entries = np.zeros((max(8, len(kept)), _ENTRY_WORDS), np.int64)
        self._entries[: len(kept), :_SAVED] = kept
        self._entries[: len(kept), _BAG] = bags[bags >= 0]
        record = Bags.at(self._words)
        record.entry_high, record.entry_free, record.entry_live = len(kept), -1, len(kept)
        self._hashes = np.zeros(max(8, len(self.slots.rows)), np.int64)
        self._table = np.empty(_table_size(len(self.slots.rows)), np.int64)
        self._entry_table = np.empty(_table_size(len(kept)), np.int64)
        kernel.link_bags(self._record(), len(self._heads))
        self.slots.free_unused()
        self.reindex()

    @property
    def nbytes(self) -> int:
        arrays = (self._hashes, self._table, self._entries, self._entry_table)
        return self.slots.nbytes + sum(array.nbytes for array in arrays)

    @property
    def index_bytes(self) -> int:
        arrays = (self._bag_of, self._bag_of_node, self._source_of_bag, self._heads)
        return self.bags.nbytes + sum(array.nbytes for array in arrays)


def _table_size(count: int) -> int:
    """A power of two that is at most half full with so many."""
    size = 16
    while size < 2 * count:
        size *= 2
    return 2 * size
