"""The memory of all groups of an m-op: how it is counted, saved, loaded and rewritten."""

from __future__ import annotations

import sys

import numpy as np

from braid.jit import memory, records
from braid.jit.hash_table import LEAST_CHAINS, chains_for, make_chains
from braid.operators.core import checks
from braid.operators.core.base import Held, State
from braid.operators.core.batch import Index
from braid.operators.core.columns import Rows, nulls_of, set_nulls
from braid.operators.core.values import Words
from braid.operators.group.kernels import groups as kernel
from braid.operators.group.kernels.layout import (
    SMALL,
    WIDE,
    WIDE_WORDS,
    FloatSum,
    Frame,
    GroupTable,
    Multiset,
    Slot,
    place_slots,
    rehash,
)
from braid.operators.group.kernels.value_multisets import clear_values, list_values, load_values
from braid.operators.group.layout import GroupLayout, text_layout
from braid.plan.deltas import WEIGHT
from braid.plan.layout import Layout

#: Columns of slots, and words of a sum of floats.
_NODE, _HASH, _STAMP, _LINK = (Slot.word(name) for name in ("node", "hash", "stamp", "next"))
_BASE, _WORDS = FloatSum.word("base"), FloatSum.word("words")
_MULTISET_WORDS = Multiset.stride // 8


class GroupState:
    def __init__(self, layout: GroupLayout) -> None:
        self._layout = layout
        self._frame = layout.frame()
        self._start()
        # Finalizers call this, and may run while the compiler is at work: it must be loaded by then.
        kernel.release_all(self._frame, self.numbers)

    def _start(self) -> None:
        #: The words of the table of groups.
        self.numbers: Words = np.zeros(GroupTable.stride // 8, np.int64)
        table = self._table = GroupTable.at(self.numbers)
        table.free, table.stamp = -1, 1
        table.link_size = 8 * self._layout.width
        make_chains(table, LEAST_CHAINS)

    def _release(self) -> None:
        kernel.release_all(self._frame, self.numbers)
        table = self._table
        for block in (table.slots, table.heads, table.touched.items, table.stopped.items):
            memory.free(block.address)
        self.numbers[:] = 0

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._release()

    def framed(
        self, output_of: Words, input_of: Words, strings: int, rows: Layout | None = None
    ) -> Words:
        """Everything that the kernels need, with where the tables are now. `rows`: how the rows
        that come lie, if they have more columns than there were."""
        frame = Frame.at(self._frame)
        if rows is not None:
            frame.in_base, frame.in_weight = rows.base, rows.word(WEIGHT)
        frame.outputs, frame.output_count = records.Words.at(output_of), len(output_of)
        frame.inputs, frame.strings = records.Words.at(input_of), strings
        return self._frame

    def follow(self, rows: Rows, index: Index, members: Index) -> tuple[Rows, Words, Words]:
        """What the deltas of a batch emit: rows, the node of each, and nodes that stopped, with
        times. The tables are where the frame says."""
        frame, table, room = Frame.at(self._frame), self._table, 2 * len(index)
        assert index.dtype == members.dtype == np.int32
        out = np.empty((room, self._layout.output.width), np.int64)
        nodes = np.empty(room, np.int64)
        keys = np.empty((len(rows), self._layout.key_words), np.int64)
        hashes = np.empty(len(rows), np.int64)
        table.out, table.out_members = records.Words.at(out), records.Words.at(nodes)
        table.out_count = 0
        frame.rows, frame.row_words = records.Words.at(rows), rows.shape[1]
        frame.index, frame.members = records.Halves.at(index), records.Halves.at(members)
        frame.row_keys, frame.row_hashes = records.Words.at(keys), records.Words.at(hashes)
        frame.delta_count = len(index)
        kernel.follow(frame, table)
        count = table.out_count
        return out[:count], nodes[:count], self.taken_stops()

    def taken_stops(self) -> Rows:
        """The nodes that stopped since the last call, with times."""
        stopped = self._table.stopped
        halted = memory.taken(stopped.items.address, stopped.count).reshape(-1, 2)
        stopped.items, stopped.room, stopped.count = records.Words(0), 0, 0
        return halted

    # ---- what is there ----

    def _slots(self) -> Rows:
        """All slots that have been used, as an array that is valid until they move."""
        table, width = self._table, self._layout.width
        return memory.view(table.slots.address, table.high * width).reshape(table.high, width)

    def _values(self) -> Rows:
        """The values of all multisets: slot, number of the multiset, value, weight."""
        found = np.empty((self.values, 4), np.int64)
        list_values(found, self._table, Frame.at(self._frame))
        return found

    @property
    def groups(self) -> int:
        return self._table.count

    @property
    def values(self) -> int:
        return self._table.values

    @property
    def negative(self) -> int:
        """Groups from which more rows have gone than ever came."""
        slots = self._slots()
        return int(np.count_nonzero((slots[:, _NODE] >= 0) & (slots[:, Slot.word("rows")] < 0)))

    @property
    def nbytes(self) -> int:
        table = self._table
        words = table.room * self._layout.width + table.mask + 1
        return 8 * (words + table.block_words + table.touched.room)

    # ---- saved and loaded ----

    def saved(self) -> State:
        """Groups, the words of wide sums in the order of groups, and values with the place of
        their group among the groups."""
        slots = self._slots()
        live = slots[:, _NODE] >= 0
        groups = slots[live]
        groups[:, (_HASH, _LINK, _STAMP)] = 0
        wide = self._wide_sums(groups)
        for word in self._layout.multiset_words:
            groups[:, word : word + _MULTISET_WORDS] = 0
        values = self._values()
        values[:, 0] = (np.cumsum(live) - 1)[values[:, 0]]
        return {"groups": groups, "wide": wide, "values": values}

    def _wide_sums(self, groups: Rows) -> Words:
        """The words of the wide sums; addresses in the groups are no use to anybody else."""
        found = [np.empty((0, WIDE_WORDS), np.int64)]
        for word in self._layout.reals:
            for group in np.flatnonzero(groups[:, word + _BASE] == WIDE).tolist():
                place = groups[group, word + _WORDS]
                found.append(memory.view(place, WIDE_WORDS).reshape(1, -1).copy())
                groups[group, word + _WORDS] = 0
        return np.concatenate(found)

    def _check(self, state: State, nodes: int, strings: int) -> None:
        """Groups are of nodes that were saved, and values of groups."""
        layout, groups = self._layout, checks.table(state, "groups", self._layout.width)
        checks.within(groups[:, _NODE], 0, nodes, "nodes of groups")
        wide = 0
        for word in layout.reals:
            bases = groups[:, word + _BASE]
            checks.within(bases, WIDE, WIDE_WORDS - SMALL + 1, "words of sums")
            wide += int(np.count_nonzero(bases == WIDE))
        checks.sized(checks.table(state, "wide", WIDE_WORDS), wide, "wide sums")
        values = checks.table(state, "values", 4)
        checks.within(values[:, 0], 0, len(groups), "groups of values")
        checks.within(values[:, 1], 0, len(layout.multisets), "sets of values")
        texts = values[np.isin(values[:, 1], layout.text_multisets), 2]
        checks.within(texts, 0, strings, "codes of texts")

    def load(self, state: State, nodes: Words, frame: Words, strings: int) -> None:
        """Start over with what was saved; `nodes` are the numbers that nodes have now, or -1."""
        self._check(state, len(nodes), strings)
        self._release()
        self._start()
        groups = state["groups"].reshape(-1, self._layout.width).copy()
        groups[:, _STAMP] = 0
        for word in self._layout.multiset_words:  # values are counted again
            groups[:, word : word + _MULTISET_WORDS] = 0
        self._load_wide(groups, state["wide"].reshape(-1, WIDE_WORDS))
        groups[:, _NODE] = nodes[groups[:, _NODE]] if len(nodes) else -1
        count, table = len(groups), self._table
        table.high = table.count = table.room = count
        place_slots(Slot(memory.resized(0, count * self._layout.width)), table)
        table.mask = chains_for(2 * count + 1) - 1
        lost = groups[:, _NODE] < 0
        # Groups of nodes that nobody has any more lie under a number of their own until purged.
        nowhere = len(nodes) + int(nodes.max(initial=0)) + 1
        groups[lost, _NODE] = nowhere
        self._slots()[:] = groups
        rehash(table, Frame.at(frame))
        values = np.ascontiguousarray(state["values"].reshape(-1, 4))
        load_values(self._layout.multiset_states, values, table, Frame.at(frame))
        if lost.any():
            gone = np.zeros(nowhere + 1, np.bool_)
            gone[nowhere] = True
            kernel.purge(frame, self.numbers, gone)

    def _load_wide(self, groups: Rows, wide: Rows) -> None:
        used = 0
        for word in self._layout.reals:
            for group in np.flatnonzero(groups[:, word + _BASE] == WIDE).tolist():
                place = memory.resized(0, WIDE_WORDS)
                memory.view(place, WIDE_WORDS)[:] = wide[used]
                groups[group, word + _WORDS] = place
                used += 1
        self._table.block_words = used * WIDE_WORDS

    # ---- texts ----

    def texts(self) -> Held | None:
        """The texts of keys and of rows that are out, then those of multisets."""
        layout, (names, types) = self._layout, text_layout(self._layout)
        if not layout.texts and not layout.text_multisets:
            return None
        slots = self._slots()
        groups = slots[slots[:, _NODE] >= 0]
        values = self._text_values()
        rows = np.zeros((len(groups) + len(values), names.width), np.int64)
        nothing = np.ones(len(rows), np.bool_)
        for k, (word, column) in enumerate(layout.texts):
            rows[: len(groups), names.base + k] = groups[:, word]
            nulls = nothing.copy()
            nulls[: len(groups)] = self._text_nulls(groups, column)
            set_nulls(rows, k, nulls)
        rows[len(groups) :, names.base + len(layout.texts)] = values[:, 2]
        nothing[len(groups) :] = False
        set_nulls(rows, len(layout.texts), nothing)
        return Held(rows, names, types)

    def _text_nulls(self, groups: Rows, column: int) -> np.ndarray:
        """Where a group has no text in a column: it is NULL, or the row has never been out."""
        if column < len(self._layout.keys):
            word, bit = Slot.word("key") + column // 64, np.int64(column % 64)
            return ((groups[:, word] >> bit) & 1).astype(np.bool_)
        word, bit = self._layout.image + column // 64, np.int64(column % 64)
        return ((groups[:, word] >> bit) & 1).astype(np.bool_) | (
            groups[:, Slot.word("shown")] == 0
        )

    def _text_values(self) -> Rows:
        """The values of multisets of texts."""
        values = self._values()
        return values[np.isin(values[:, 1], self._layout.text_multisets)]

    def replace_texts(self, rows: Rows, frame: Words) -> None:
        """Take the texts back with their codes rewritten."""
        names, _ = text_layout(self._layout)
        slots = self._slots()
        groups = np.flatnonzero(slots[:, _NODE] >= 0)
        for k, (word, _) in enumerate(self._layout.texts):
            nulls = nulls_of(rows[: len(groups)], k)
            known = np.ones(len(groups), np.bool_) if nulls is None else ~nulls
            slots[groups[known], word] = rows[: len(groups), names.base + k][known]
        table, place = self._table, Frame.at(frame)
        rehash(table, place)
        values = self._text_values()
        values[:, 2] = rows[len(groups) :, -1]
        # What is in the order of codes has another order now.
        states, wanted = (
            self._layout.multiset_states,
            np.array(self._layout.text_multisets, np.int64),
        )
        clear_values(states, wanted, table, place)
        load_values(states, values, table, place)
