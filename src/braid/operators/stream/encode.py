"""Sharable streams as one channel: an event that belongs to several of them is there once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.operators.core.base import Stateless
from braid.operators.core.batch import Batch
from braid.operators.core.bit_sets import BitSets
from braid.operators.core.columnar_input import Columns, rows_of
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin, origin_of
from braid.operators.core.node_sets import Sets
from braid.operators.core.nodes import Nodes, signatures
from braid.operators.core.roles import TakesFeeds
from braid.operators.core.values import Words
from braid.plan.channel_specs import EncodeSpec, StreamRecipe
from braid.plan.layout import END

#: More sets than this are not kept: they are numbered again as they come.
MANY_SETS = 1_024


class EncodeLogic(Stateless, TakesFeeds):
    """Members are the streams themselves. `feeds`: events that came for several at once."""

    def __init__(self, spec: EncodeSpec) -> None:
        self._spec = spec
        self.streams = spec.streams
        self.nodes = Nodes()
        self._node_of: dict[str, int] = {}
        self.feeds: list[tuple[tuple[str, ...], Rows]] = []
        #: Of streams whose inputs have the events of feeds as well: those that are theirs alone.
        self.by_themselves: dict[str, Rows | Columns | None] = {}
        self._sets = Sets()
        #: What events belong to that came for some streams at once, as long as nobody comes or goes.
        self._member_of: dict[tuple[str, ...], int | None] = {}

    def admit(
        self, recipe: StreamRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        wanted = signatures(("stream", recipe.stream), constants.count, [])
        numbers, _ = self.nodes.add(wanted)
        if len(numbers):
            self._node_of[recipe.stream] = int(numbers[0])
            self._member_of = {}
        return origin_of(self.nodes, numbers)

    def dismiss(self, numbers: Words) -> Words:
        gone = self.nodes.release(numbers)
        for node in gone.tolist():
            self._node_of = {s: n for s, n in self._node_of.items() if n != node}
            self._member_of = {}
        return gone

    def _member(self, streams: tuple[str, ...]) -> int | None:
        """The node or the set of nodes of some streams; None if nobody reads any of them."""
        if streams not in self._member_of:
            nodes = [self._node_of[s] for s in streams if s in self._node_of]
            member = self._sets.member(np.array(nodes, np.int64)) if nodes else None
            self._member_of[streams] = member
        return self._member_of[streams]

    def _own(self, stream: str, batch: Batch) -> Rows:
        if stream not in self.by_themselves:
            return batch.rows
        events = self.by_themselves[stream]
        return batch.rows[:0] if events is None else rows_of(events)

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        parts: list[tuple[tuple[str, ...], Rows]] = [
            ((stream,), self._own(stream, batch))
            for stream, batch in zip(self._spec.streams, inputs, strict=True)
        ]
        parts += self.feeds
        self.feeds = []
        if len(self._sets) > MANY_SETS:
            self._sets, self._member_of = Sets(), {}  # of streams that came and went
        kept = [(streams, rows) for streams, rows in parts if len(rows)]
        rows = [rows for _, rows in kept] or [inputs[0].rows]
        counts = np.cumsum([0, *(len(r) for r in rows)])
        index, members = [], []
        for (streams, own), first in zip(kept, counts, strict=False):
            member = self._member(streams)
            if member is not None:
                index.append(np.arange(first, first + len(own), dtype=np.int32))
                members.append(np.full(len(own), member, np.int32))
        sets = self._sets if len(self._sets) else None
        if len(rows) == len(index) == 1:
            return Batch(rows[0], index[0], members[0], sets)  # each part is in order
        none = [np.empty(0, np.int32)]
        return in_order(
            np.concatenate(rows),
            np.concatenate(index or none),
            np.concatenate(members or none),
            sets,
        )


def in_order(
    rows: Rows, index: np.ndarray, members: np.ndarray, sets: Sets | BitSets | None
) -> Batch:
    """A batch of rows in any order."""
    ends = rows[:, END]
    if len(ends) < 2 or bool((ends[1:] >= ends[:-1]).all()):
        return Batch(rows, index, members, sets)
    order = np.argsort(ends, kind="stable")
    place = np.empty(len(rows), np.int32)
    place[order] = np.arange(len(rows), dtype=np.int32)
    index = place[index]
    by_row = np.argsort(index, kind="stable")
    return Batch(rows[order], index[by_row], members[by_row], sets)
