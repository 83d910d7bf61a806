"""Runs the m-ops of a plan, one after the other, each over a whole batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from braid.algebra.types import Kind, kind_of
from braid.mops.base import Context, Held, Logic, State
from braid.mops.build import build
from braid.mops.columns import Rows
from braid.plan.plan import Plan, source_channel

#: Compact the tables of values when they have grown so much beyond what was alive the last time.
GROWTH = 2
COMPACT_FROM = 1 << 20


class Executor:
    """The running plan of one shard: knows nothing of time beyond the bound of each batch."""

    def __init__(
        self,
        plan: Plan,
        context: Context,
        states: Mapping[str, State],
    ) -> None:
        self.plan = plan
        self.context = context
        self.logics: dict[str, Logic] = {
            mop.signature: build(mop.spec, context, states.get(mop.signature)) for mop in plan.mops
        }
        self._alive = COMPACT_FROM
        self._last_use = _last_uses(plan)

    def run(self, sources: Mapping[str, Rows], bounds: Mapping[str, int]) -> dict[str, Rows]:
        """The rows of every outlet's channel for whole epochs of input.

        `sources` has the rows of each stream in order of `end`; `bounds` the watermark that
        each m-op's clock advances to.
        """
        channels: dict[str, Rows] = {
            source_channel(name): sources.get(name, np.empty((0, shape.layout.width), np.int64))
            for name, shape in self.plan.sources.items()
        }
        wanted = {outlet.channel for outlet in self.plan.outlets}
        for position, mop in enumerate(self.plan.mops):
            inputs = [channels[c] for c in mop.inputs]
            logic = self.logics[mop.signature]
            channels[mop.signature] = logic.on_batch(inputs, bounds[mop.signature])
            for channel in self._last_use.get(position, ()):
                if channel not in wanted:
                    del channels[channel]
        return {channel: channels[channel] for channel in wanted}

    @property
    def instances(self) -> int:
        return sum(logic.instances for logic in self.logics.values())

    @property
    def state_bytes(self) -> int:
        """Bytes of instances and of the values that they refer to."""
        return self._values_size() + sum(logic.state_bytes for logic in self.logics.values())

    def _values_size(self) -> int:
        values = self.context.values
        return values.strings.size + sum(c.values.nbytes for c in values.carried.values())

    def compact(self) -> None:
        """Forget strings and carried values that no instance refers to, if that may pay."""
        values = self.context.values
        if self._values_size() < GROWTH * self._alive:
            return
        held = [(logic, h) for logic in self.logics.values() if (h := logic.held()) is not None]
        changed = self._remap(held, Kind.STRING, None, values.strings.compact)
        self.context.renew_constants()
        for type_, store in values.carried.items():
            changed |= self._remap(held, Kind.OPAQUE, type_, store.compact)
        for logic, h in held:
            if id(h) in changed:
                logic.replace_held(h.rows)
        self._alive = max(self._values_size(), COMPACT_FROM)

    @staticmethod
    def _remap(
        held: list[tuple[Logic, Held]], kind: Kind, type_: Any, compact: Callable[..., Any]
    ) -> set[int]:
        """Compact one table by the codes that are alive, and rewrite those."""
        places = [
            (h, h.layout.base + column)
            for _, h in held
            for column, t in enumerate(h.types)
            if kind_of(t) is kind and (type_ is None or t == type_)
        ]
        mapping = compact([_codes(h, word) for h, word in places])
        if mapping is None:
            return set()
        for h, word in places:
            known = ~_nulls(h, word)
            h.rows[known, word] = mapping[h.rows[known, word]]
        return {id(h) for h, _ in places}


def _nulls(held: Held, word: int) -> np.ndarray:
    column = word - held.layout.base
    bits = (held.rows[:, 2 + column // 64] >> np.int64(column % 64)) & 1
    return bits.astype(np.bool_)


def _codes(held: Held, word: int) -> np.ndarray:
    return held.rows[~_nulls(held, word), word]


def _last_uses(plan: Plan) -> dict[int, list[str]]:
    """After which m-op each channel is no longer read, so that its rows can go."""
    last: dict[str, int] = {}
    for position, mop in enumerate(plan.mops):
        for channel in mop.inputs:
            last[channel] = position
    uses: dict[int, list[str]] = {}
    for channel, position in last.items():
        uses.setdefault(position, []).append(channel)
    return uses
