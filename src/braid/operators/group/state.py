"""The memory of all groups of an m-op: what is counted, saved, and rewritten of it."""

from __future__ import annotations

import sys

import numpy as np

from braid.jit import memory
from braid.jit.runtime import address
from braid.operators.core import checks
from braid.operators.core.base import Held, State
from braid.operators.core.batch import Index
from braid.operators.core.columns import Rows, nulls_of, set_nulls
from braid.operators.core.values import Words
from braid.operators.group.kernels import groups as kernel
from braid.operators.group.kernels import layout as at
from braid.operators.group.kernels.layout import hang_groups, hash_again
from braid.operators.group.kernels.value_multisets import clear_values, list_values, load_values
from braid.operators.group.layout import GroupLayout, text_layout
from braid.plan.deltas import WEIGHT
from braid.plan.layout import Layout

_LEAST_CHAINS = 16


class GroupState:
    def __init__(self, layout: GroupLayout) -> None:
        self._layout = layout
        self.numbers: Words = np.zeros(at.NUMBERS, np.int64)
        self._frame = layout.frame()
        self._start()
        # Finalizers call this, and may run while the compiler is at work: it must be loaded by then.
        kernel.release_all(self._frame, self.numbers)

    def _start(self) -> None:
        numbers = self.numbers = np.zeros(at.NUMBERS, np.int64)
        numbers[at.G_FREE] = -1
        numbers[at.STAMPS] = 1
        hang_groups(_LEAST_CHAINS, address(numbers), address(self._frame))

    def _release(self) -> None:
        kernel.release_all(self._frame, self.numbers)
        for place in (at.G_AT, at.G_HEADS, at.TOUCHED_AT):
            memory.free(self.numbers[place])
            self.numbers[place] = 0

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._release()

    def framed(
        self, output_of: Words, input_of: Words, strings: int, rows: Layout | None = None
    ) -> Words:
        """Everything that the kernels need, with where the tables are now. `rows`: how the rows
        that come lie, if they have more columns than there were."""
        frame = self._frame
        if rows is not None:
            frame[at.IN_BASE], frame[at.IN_WEIGHT] = rows.base, rows.word(WEIGHT)
        frame[at.MAP], frame[at.MAP_SIZE] = address(output_of), len(output_of)
        frame[at.INPUTS], frame[at.STRINGS] = address(input_of), strings
        return frame

    def follow(self, rows: Rows, index: Index, members: Index) -> tuple[Rows, Words, Words]:
        """What the deltas of a batch put out: rows, the node of each, and nodes that stopped, with
        times. The tables are where the frame says."""
        numbers, room = self.numbers, 2 * len(index)
        out = np.empty((room, self._layout.output.width), np.int64)
        nodes = np.empty(room, np.int64)
        numbers[at.OUT_AT], numbers[at.MEMBERS_AT] = address(out), address(nodes)
        numbers[at.OUT_COUNT] = 0
        keys = np.empty((len(rows), self._layout.key_words), np.int64)
        hashes = np.empty(len(rows), np.int64)
        kernel.follow(self._frame, numbers, rows, index, members, keys, hashes)
        count = int(numbers[at.OUT_COUNT])
        return out[:count], nodes[:count], self.taken_stops()

    def taken_stops(self) -> Rows:
        """The nodes that stopped since this was asked, with times."""
        numbers, stopped = self.numbers, int(self.numbers[at.STOPPED])
        halted = memory.taken(numbers[at.STOPPED_AT], 2 * stopped).reshape(stopped, 2)
        numbers[at.STOPPED_AT] = numbers[at.STOPPED] = numbers[at.STOPPED_ROOM] = 0
        return halted

    # ---- what is there ----

    def _slots(self) -> Rows:
        """All slots that have been used, as an array that is valid until they move."""
        high, width = int(self.numbers[at.G_HIGH]), self._layout.width
        return memory.view(self.numbers[at.G_AT], high * width).reshape(high, width)

    def _values(self) -> Rows:
        """The values of all multisets: slot, number of the multiset, value, how often."""
        found = np.empty((self.values, 4), np.int64)
        high = int(self.numbers[at.G_HIGH])
        list_values(found, address(self.numbers), high, address(self._frame))
        return found

    @property
    def groups(self) -> int:
        return int(self.numbers[at.G_COUNT])

    @property
    def values(self) -> int:
        return int(self.numbers[at.V_COUNT])

    @property
    def negative(self) -> int:
        """Groups from which more rows have gone than ever came."""
        slots = self._slots()
        return int(np.count_nonzero((slots[:, at.NODE] >= 0) & (slots[:, at.COUNT] < 0)))

    @property
    def nbytes(self) -> int:
        numbers = self.numbers
        words = numbers[at.G_ROOM] * self._layout.width + numbers[at.G_MASK] + 1
        return int(8 * (words + numbers[at.BLOCK_WORDS] + numbers[at.TOUCHED_ROOM]))

    # ---- saved and loaded ----

    def saved(self) -> State:
        """Groups, the words of wide sums in the order of groups, and values with the place of
        their group among the groups."""
        slots = self._slots()
        live = slots[:, at.NODE] >= 0
        groups = slots[live]
        groups[:, (at.HASH, at.LINK, at.STAMP)] = 0
        wide = self._wide_sums(groups)
        for word in self._layout.multiset_words:
            groups[:, word : word + at.MULTISET_WORDS] = 0
        values = self._values()
        values[:, 0] = (np.cumsum(live) - 1)[values[:, 0]]
        return {"groups": groups, "wide": wide, "values": values}

    def _wide_sums(self, groups: Rows) -> Words:
        """The words of the wide sums; addresses in the groups are no use to anybody else."""
        found = [np.empty((0, at.WIDE_WORDS), np.int64)]
        for word in self._layout.reals:
            for group in np.flatnonzero(groups[:, word + at.BASE] == at.WIDE).tolist():
                place = groups[group, word + at.WORDS]
                found.append(memory.view(place, at.WIDE_WORDS).reshape(1, -1).copy())
                groups[group, word + at.WORDS] = 0
        return np.concatenate(found)

    def _check(self, state: State, nodes: int, strings: int) -> None:
        """Groups are of nodes that were saved, and values of groups."""
        layout, groups = self._layout, checks.table(state, "groups", self._layout.width)
        checks.within(groups[:, at.NODE], 0, nodes, "nodes of groups")
        wide = 0
        for word in layout.reals:
            bases = groups[:, word + at.BASE]
            checks.within(bases, at.WIDE, at.WIDE_WORDS - at.SMALL + 1, "words of sums")
            wide += int(np.count_nonzero(bases == at.WIDE))
        checks.sized(checks.table(state, "wide", at.WIDE_WORDS), wide, "wide sums")
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
        groups[:, at.STAMP] = 0
        for word in self._layout.multiset_words:  # values are counted again
            groups[:, word : word + at.MULTISET_WORDS] = 0
        self._load_wide(groups, state["wide"].reshape(-1, at.WIDE_WORDS))
        groups[:, at.NODE] = nodes[groups[:, at.NODE]] if len(nodes) else -1
        count, numbers = len(groups), self.numbers
        numbers[at.G_HIGH] = numbers[at.G_COUNT] = numbers[at.G_ROOM] = count
        numbers[at.G_AT] = memory.resized(0, count * self._layout.width)
        chains = _LEAST_CHAINS
        while chains <= 2 * count:
            chains *= 2
        numbers[at.G_MASK] = chains - 1
        lost = groups[:, at.NODE] < 0
        # Groups of nodes that nobody has any more lie under a number of their own until purged.
        nowhere = len(nodes) + int(nodes.max(initial=0)) + 1
        groups[lost, at.NODE] = nowhere
        self._slots()[:] = groups
        hash_again(address(numbers), address(frame))
        values = np.ascontiguousarray(state["values"].reshape(-1, 4))
        load_values(address(self._layout.records), values, address(numbers), address(frame))
        if lost.any():
            gone = np.zeros(nowhere + 1, np.bool_)
            gone[nowhere] = True
            kernel.purge(frame, numbers, gone)

    def _load_wide(self, groups: Rows, wide: Rows) -> None:
        used = 0
        for word in self._layout.reals:
            for group in np.flatnonzero(groups[:, word + at.BASE] == at.WIDE).tolist():
                place = memory.resized(0, at.WIDE_WORDS)
                memory.view(place, at.WIDE_WORDS)[:] = wide[used]
                groups[group, word + at.WORDS] = place
                used += 1
        self.numbers[at.BLOCK_WORDS] = used * at.WIDE_WORDS

    # ---- texts ----

    def texts(self) -> Held | None:
        """The texts of keys and of rows that are out, then those of multisets."""
        layout, (names, types) = self._layout, text_layout(self._layout)
        if not layout.texts and not layout.text_multisets:
            return None
        slots = self._slots()
        groups = slots[slots[:, at.NODE] >= 0]
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
            word, bit = at.KEY + column // 64, np.int64(column % 64)
            return ((groups[:, word] >> bit) & 1).astype(np.bool_)
        word, bit = self._layout.image + column // 64, np.int64(column % 64)
        return ((groups[:, word] >> bit) & 1).astype(np.bool_) | (groups[:, at.SHOWN] == 0)

    def _text_values(self) -> Rows:
        """The values of multisets of texts."""
        values = self._values()
        return values[np.isin(values[:, 1], self._layout.text_multisets)]

    def replace_texts(self, rows: Rows, frame: Words) -> None:
        """Take the texts back with their codes rewritten."""
        names, _ = text_layout(self._layout)
        slots = self._slots()
        groups = np.flatnonzero(slots[:, at.NODE] >= 0)
        for k, (word, _) in enumerate(self._layout.texts):
            nulls = nulls_of(rows[: len(groups)], k)
            known = np.ones(len(groups), np.bool_) if nulls is None else ~nulls
            slots[groups[known], word] = rows[: len(groups), names.base + k][known]
        numbers, place = address(self.numbers), address(frame)
        hash_again(numbers, place)
        values = self._text_values()
        values[:, 2] = rows[len(groups) :, -1]
        # What is in the order of codes has another order now.
        records = address(self._layout.records)
        wanted = np.array(self._layout.text_multisets, np.int64)
        clear_values(records, wanted, numbers, len(slots), place)
        load_values(records, values, numbers, place)
