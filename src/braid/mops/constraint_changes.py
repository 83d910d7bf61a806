"""A join with constraints over relations whose rows come and go (`docs/constraint_joins.md`).

The law: the sum of what it has put out is at each instant a part of the join of what has come to
its inputs. Where only what comes is asked, what goes may be missing, and what goes though it has
never come is only there to be compared with what comes at the same instant.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.algebra.constraints import ConstraintMode
from braid.algebra.types import Kind, kind_of
from braid.kernels import k_changes as kernel
from braid.kernels import k_frame as frames
from braid.kernels import k_store as stores
from braid.kernels import memory
from braid.kernels.runtime import address
from braid.mops.base import Context, Held, OneForAll, State
from braid.mops.batch import Batch
from braid.mops.columns import Rows
from braid.mops.constraint_change_state import SAVED, ChangeStores
from braid.mops.constraint_output import Output
from braid.mops.constraint_state import STORES
from braid.mops.join_plan import keys_of
from braid.mops.values import Words
from braid.plan.constraint_join import ConstraintJoinSpec
from braid.plan.layout import Layout

#: Results of rows of an input after which it is judged whether each has one at most.
JUDGED = 1000
#: Rows that come or go between two choices of orders, at least.
_ROUND = 8192


class ChangesJoinLogic(OneForAll):
    """One join of relations, of all queries that have the same."""

    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(self, spec: ConstraintJoinSpec, context: Context) -> None:
        self._spec, self._context = spec, context
        self._keys = keys_of(spec)
        self._held = ChangeStores(spec, self._keys)
        self._frame = self._held.frame
        self._output = Output(spec, context, self._frame)
        self._drops = spec.mode is ConstraintMode.MONITORED
        self._frame[frames.SAMPLES] = round(1024 * context.watching.sample)
        self._frame[kernel.ONLY_COMING] = spec.only_coming and self._drops
        self._since = 0
        self.stopped: dict[int, int] = {}

    # ---- changes ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        width, frame = self._spec.output.layout.width, self._frame
        rows = [np.ascontiguousarray(batch.alone()) for batch in inputs]
        came = sum(map(len, rows))
        if self.stopped or self._output.never or not came:
            return Batch(np.empty((0, width), np.int64))
        for feed, own in zip(self._held.feeds, rows, strict=True):
            feed[frames.FEED_ROWS_AT], feed[frames.FEED_ROWS] = address(own), len(own)
            feed[frames.FEED_ROW] = 0
        frame[frames.STRINGS_AT] = address(self._context.values.strings.description)
        kernel.run_changes(frame, self._output.residual)
        out = memory.taken(frame[frames.OUT_AT], int(frame[frames.OUT_ROWS]) * width)
        frame[[frames.OUT_AT, frames.OUT_ROWS, frames.OUT_ROOM]] = 0
        self._tend(came)
        return Batch(out.reshape(-1, width))

    def _tend(self, came: int) -> None:
        if self._drops:
            for number, store in enumerate(self._held.stores):
                self._judge(number, store)
        self._held.tidy()
        self._since += came
        if len(self._spec.inputs) > 2 and self._since > max(_ROUND, self.instances):
            self._since = 0
            self._held.choose_orders()
        if self.instances > self._context.instance_budget:
            self._give_up(int(self._frame[frames.NOW]))

    def _judge(self, number: int, store: Words) -> None:
        """Whether rows of an input are in one result at most: then they leave after it."""
        first, again = int(store[stores.FIRST]), int(store[stores.AGAIN])
        if first + again < JUDGED:
            return
        known = store[stores.COVERS] == stores.DONE_WITH
        store[stores.COVERS] = stores.WATCHED if again else stores.DONE_WITH
        store[stores.FIRST], store[stores.AGAIN] = first // 2, again // 2
        if not again and not known:
            kernel.let_past_go(self._frame, number, self._output.residual)

    def _give_up(self, at: int) -> None:
        self.stopped = {0: at}
        for number in range(len(self._spec.inputs)):
            self._held.forget(number)

    # ---- state ----

    @property
    def instances(self) -> int:
        """Rows in memory."""
        return int(self._held.stores[:, stores.COUNT].sum())

    @property
    def state_bytes(self) -> int:
        return self._held.nbytes

    @property
    def index_bytes(self) -> int:
        return 0

    def snapshot(self) -> State:
        counted = self._held.stores[:, SAVED].ravel()
        state: State = {STORES: np.append(counted, self._frame[frames.LOST])}
        for number in range(len(self._spec.inputs)):
            state[f"rows{number}"] = self._held.records(number)
        budget = self._context.instance_budget
        state["stopped"] = np.array([w for at in self.stopped.values() for w in (at, budget)])
        return state

    def restore(self, state: State) -> None:
        counted = state[STORES]
        self._held.stores[:, SAVED] = counted[:-1].reshape(-1, len(SAVED))
        self._frame[frames.LOST] = counted[-1]
        for number in range(len(self._spec.inputs)):
            self._take(number, state[f"rows{number}"])
        self.stopped = {}
        if len(state["stopped"]) and self._context.instance_budget <= state["stopped"][1]:
            self._give_up(int(state["stopped"][0]))

    def _take(self, number: int, records: Rows) -> None:
        self._held.forget(number)
        width = int(self._held.stores[number, stores.STRIDE]) // 8
        self._held.take(number, records.reshape(-1, width))

    def held(self) -> Held | None:
        """All rows that are held, with the columns that have codes."""
        carried = self._carried()
        if not carried:
            return None
        layout = Layout(tuple(name for _, _, name in carried))
        types = tuple(self._spec.inputs[i].schema.attributes[c].type for i, c, _ in carried)
        parts = [self._shown(number, carried, layout) for number in range(len(self._spec.inputs))]
        return Held(np.concatenate(parts), layout, types)

    def _shown(self, number: int, carried: Sequence[tuple[int, int, str]], layout: Layout) -> Rows:
        """The columns with codes of the rows of an input; those of others are NULL."""
        rows, base = self._held.records(number), self._spec.inputs[number].layout.base
        out = np.zeros((len(rows), layout.width), np.int64)
        for target, (i, column, _) in enumerate(carried):
            mask, bit = 2 + target // 64, np.int64(1) << np.int64(target % 64)
            if i == number:
                out[:, layout.base + target] = rows[:, base - 2 + column]
                null = (rows[:, column // 64] >> np.int64(column % 64)) & 1
                out[:, mask] |= np.where(null != 0, bit, np.int64(0))
            else:
                out[:, mask] |= bit
        return out

    def _carried(self) -> list[tuple[int, int, str]]:
        return [
            (i, column, f"{i}.{a.name}")
            for i, shape in enumerate(self._spec.inputs)
            for column, a in enumerate(shape.schema)
            if kind_of(a.type) in (Kind.STRING, Kind.OPAQUE)
        ]

    def replace_held(self, rows: Rows) -> None:
        """Take rows back with new codes: hashes of keys are others then."""
        carried = self._carried()
        base, first = Layout(tuple(name for _, _, name in carried)).base, 0
        for number, shape in enumerate(self._spec.inputs):
            records = self._held.records(number)
            last = first + len(records)
            for target, (i, column, _) in enumerate(carried):
                if i == number:
                    place = shape.layout.base - 2 + column
                    records[:, place] = rows[first:last, base + target]
            first = last
            self._take(number, records)

    def forget_codes(self) -> None:
        """Constants keep their codes, and rows are given back with new ones."""

    def describe(self) -> dict[str, Any]:
        names = [stores.COUNT, stores.EVICTED, stores.PEAK]
        covers = self._held.stores[:, stores.COVERS]
        sampled = int(self._frame[frames.SAMPLES])
        lost = int(self._frame[frames.LOST]) * (1024 - sampled) // max(sampled, 1)
        return {
            "mode": self._spec.mode.value,
            "watches": True,
            "looks": False,
            "looked_in_vain": 0,
            "aside_above": self._context.aside_above,
            "windows": [w.describe() for w in self._spec.windows],
            "only_coming": self._spec.only_coming,
            "inputs": [
                {"rows": n, "aside": 0, "evicted": e, "returned": 0, "most": m}
                for n, e, m in self._held.stores[:, names].tolist()
            ],
            "file_bytes": 0,
            "one_result": [bool(c == stores.DONE_WITH) for c in covers],
            "constraints": [],
            "broken_keys": {},
            "lost": lost,
        }

    def __del__(self) -> None:
        held = getattr(self, "_held", None)
        if held is not None and not sys.is_finalizing():
            held.release()
