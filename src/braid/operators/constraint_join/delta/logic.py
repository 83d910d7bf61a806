"""A constraint join of relations whose rows come and go (`docs/constraint_joins.md`).

The law: the sum of its output is at each instant a part of the join of what has come to its inputs. In
exact mode, where rows are spilled, it is that join. If the output is read for what comes only, what
goes may be missing, and a result that goes without having come is there only to be compared with what
comes at the same instant.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.algebra.constraints import ConstraintMode
from braid.algebra.types import Kind, kind_of
from braid.jit.runtime import address
from braid.jit.vector import take_words
from braid.operators.constraint_join.delta.spill import EvictionPause, SpilledChanges
from braid.operators.constraint_join.delta.state import SAVED, ChangeStores
from braid.operators.constraint_join.delta.watch import ChangesWatch
from braid.operators.constraint_join.fields import read_fields, write_fields
from braid.operators.constraint_join.kernels.delta_join import evict_past, run_changes
from braid.operators.constraint_join.kernels.delta_store import FLAG_BITS
from braid.operators.constraint_join.kernels.join import TAKEN, WANTED
from braid.operators.constraint_join.kernels.records import CONFIRMED, COUNTED, UNCOUNTED
from braid.operators.constraint_join.output import Output
from braid.operators.constraint_join.spec import STORES, ConstraintJoinSpec
from braid.operators.constraint_join.watch.loss_estimate import LossEstimate, Lossy
from braid.operators.constraint_join.watch.report import Broken
from braid.operators.core import checks
from braid.operators.core.base import Context, Held, OneForAll, State
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows
from braid.operators.core.roles import UsesConstraints
from braid.operators.join.probe_orders import keys_of
from braid.plan.layout import Layout

#: Results of rows of an input after which it is judged whether each has one at most.
JUDGED = 1000
#: How many of a hundred may have another one, if no result is lost by it.
_OFTEN = 2
#: The rows that come or go between two choices of orders, and between two walks, at least.
_ROUND = 8192


class ChangesJoinLogic(OneForAll, UsesConstraints):
    """One join of relations, of all queries that have the same."""

    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(self, spec: ConstraintJoinSpec, context: Context) -> None:
        self._spec, self._context = spec, context
        self._keys = keys_of(spec)
        self._held = ChangeStores(spec, self._keys)
        self._frame = self._held.frame
        self._spilled = [SpilledChanges(self._held, number) for number in range(len(spec.inputs))]
        self._output = Output(spec, context, self._frame)
        self._exact = spec.mode is ConstraintMode.EXACT
        self._frame.spills = self._frame.early = self._exact
        self._frame.samples = round(1024 * context.watching.sample)
        self._frame.only_coming = spec.only_coming and not self._exact
        self._watch = ChangesWatch(spec, self._held, self._keys, context.watching)
        # Rows have no room to remember why they would have been dropped: all reasons are given up together.
        self._loss = LossEstimate(self._frame, 1, context.watching)
        self._lossy: list[Lossy] = []
        #: Rows that came or went since orders were chosen, and since the last walk.
        self._since = self._unwalked = 0
        self._pause = EvictionPause()
        self._frame.turns = _ROUND
        if not self._exact or not context.spill_above:
            self._begin()
        self.stopped: dict[int, int] = {}

    # ---- changes ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        width, frame = self._spec.output.layout.width, self._frame
        rows = [np.ascontiguousarray(batch.alone()) for batch in inputs]
        if self.stopped or self._output.never or not any(map(len, rows)):
            return Batch(np.empty((0, width), np.int64))
        self._held.feed(rows)
        frame.strings = address(self._context.values.strings.description)
        while (status := run_changes(frame, self._output.residual)) != TAKEN:
            if status == WANTED:
                self._bring_back()
                continue
            self._tend()
            if self.stopped:
                break
        out = take_words(frame.out).reshape(-1, width)
        frame.out_rows = 0
        self._tend()
        return Batch(out)

    def _bring_back(self) -> None:
        """Reload the rows that a row looks up which comes or goes, and remember that no more are on
        disk."""
        index = self._frame.wanted_index
        hash_ = self._frame.wanted_hash
        self._spilled[int(self._held.indexes["store"][index])].bring_back(index, hash_)
        place = (self._frame.passing, self._frame.pass_row)
        self._held.absent.note(index, hash_, (*self._held.feeds["row"].tolist(), *place))
        self._held.point_absent()

    def _tend(self) -> None:
        """Evict rows, and give memory back."""
        came = _ROUND - self._frame.turns
        self._frame.turns = _ROUND
        self._since += came
        self._unwalked += came
        if self._watch.breaks.keyed:
            self._watch.note_keys()
        if self._exact:
            self._turn_on_or_off()
        # While results may still go, the rows by which they are found stay.
        unsure = self._frame.unsure != 0
        self._frame.owed = unsure
        if self._frame.observes and not unsure:
            self._act()
        self._held.tidy()
        held = self.instances
        if len(self._spec.inputs) > 2 and self._since > max(_ROUND, held):
            self._since = 0
            self._held.choose_orders()
        if held > self._context.instance_budget:
            self._give_up(self._frame.now)

    def _turn_on_or_off(self) -> None:
        """While few rows are held, nothing is observed and no row is spilled."""
        bytes_, above = self._held.nbytes, self._context.spill_above
        if self._frame.observes:
            if 2 * bytes_ < above:
                self._frame.observes = 0
                self._watch.end()
        elif bytes_ > above:
            self._begin()

    def _begin(self) -> None:
        self._frame.observes = 1
        self._watch.begin()

    def _act(self) -> None:
        """Judge the observations; from time to time collect rows."""
        if not self._exact and self._is_lossy():
            self._held.stores["one_result"] = UNCOUNTED
            return
        for number, store in enumerate(self._held.stores):
            self._judge(number, store)
        if self._unwalked > 2 * _ROUND and self._unwalked > self.instances:
            self._watch.rouse()
            if self._exact:
                self._note_returns()
            if not self._pause.of_others:
                self._watch.collect()
            self._unwalked = 0
        if self._exact:
            for spilled in self._spilled:
                spilled.write()

    def _is_lossy(self) -> bool:
        """Whether more results were lost than may be: then rows are not dropped any more."""
        self._loss.by[0] = self._frame.lost
        if self._loss.judge():
            self._lossy.append(self._loss.lossy([self._lossy_words()]))
        return bool(self._loss.given_up[0])

    def _lossy_words(self) -> str:
        names = [str(stream or number) for number, (stream, _) in enumerate(self._spec.names)]
        return f"constraints on the join of {' and '.join(names)}"

    def _note_returns(self) -> None:
        """Let rows stay for a while if too many of those that left come back."""
        returned = np.sum([spilled.returned for spilled in self._spilled], axis=0)
        self._pause.note(returned, self._unwalked)
        self._frame.early = not self._pause.of_results
        if self._pause.of_done:
            covers = self._held.stores["one_result"]
            self._held.stores["one_result"] = np.minimum(covers, COUNTED)

    def _judge(self, number: int, store: Any) -> None:
        """Whether rows of an input are in one result at most: then they leave after it."""
        first, again = int(store["first_results"]), int(store["further_results"])
        if first + again < JUDGED or self._pause.of_done:
            return
        known = store["one_result"] == CONFIRMED
        one = 100 * again <= _OFTEN * first if self._exact else not again
        store["one_result"] = CONFIRMED if one else COUNTED
        store["first_results"], store["further_results"] = first // 2, again // 2
        if one and not known and not self._frame.early:
            evict_past(self._frame, number, self._output.residual)

    def _give_up(self, at: int) -> None:
        self.stopped = {0: at}
        frame = self._frame
        frame.passing, frame.pending.count, frame.unsure, frame.owed = -1, 0, 0, 0
        for number, spilled in enumerate(self._spilled):
            self._held.forget(number)
            spilled.forget()

    @property
    def mode(self) -> ConstraintMode:
        return self._spec.mode

    def broken(self) -> list[Broken]:
        """Declared constraints that were broken since this was last asked."""
        return self._watch.breaks.news(self._context.values)

    def lossy(self) -> list[Lossy]:
        """Constraints that were given up since this was last asked, for the results they lose."""
        found, self._lossy = self._lossy, []
        return found

    def uses(self, name: str) -> bool:
        """Whether a declared constraint is of use to it, or was."""
        return self._watch.breaks.uses(name)

    def give_up(self, broken: Broken) -> None:
        """Do not use a declared constraint any more: its streams have broken it."""
        self._watch.give_up(broken)

    # ---- state ----

    @property
    def instances(self) -> int:
        """Rows in memory."""
        return sum(self._held.stores["count"].tolist())

    @property
    def state_bytes(self) -> int:
        spilled = sum(spilled.nbytes for spilled in self._spilled) if self._exact else 0
        return self._held.nbytes + spilled + self._watch.nbytes

    @property
    def index_bytes(self) -> int:
        return 0

    def snapshot(self) -> State:
        counted = read_fields(self._held.stores, SAVED).ravel()
        own = [
            self._frame.lost,
            self._held.all_inputs["arrivals"],
            self._frame.observes,
        ]
        state: State = {STORES: np.concatenate([counted, np.array(own, np.int64)])}
        for number, spilled in enumerate(self._spilled):
            state[f"rows{number}"] = self._held.records(number)
            state[f"aside{number}"] = spilled.records()
        state |= self._watch.saved()
        state["loss"] = self._loss.saved()
        budget = self._context.instance_budget
        state["stopped"] = np.array([w for at in self.stopped.values() for w in (at, budget)])
        return state

    def restore(self, state: State) -> None:
        counted = state[STORES]
        checks.sized(counted, len(self._spilled) * len(SAVED) + 3, "what was counted of inputs")
        write_fields(self._held.stores, SAVED, counted[:-3])
        self._frame.lost, self._held.all_inputs["arrivals"] = counted[-3], counted[-2]
        self._frame.observes = counted[-1]
        for number in range(len(self._spec.inputs)):
            width = int(self._held.stores["slot_words"][number])
            rows = checks.table(state, f"rows{number}", width)
            spilled = checks.table(state, f"aside{number}", width)
            for own in (rows, spilled):
                weights = own[:, -1] >> FLAG_BITS
                checks.within(weights, -checks.MOST, checks.MOST, "how often rows are there")
            self._take(number, rows, spilled)
        self._watch.take(state)
        if "loss" in state:
            self._loss.take(state["loss"])
        self.stopped = {}
        if len(state["stopped"]) and self._context.instance_budget <= state["stopped"][1]:
            self._give_up(int(state["stopped"][0]))

    def _take(self, number: int, records: Rows, spilled: Rows) -> None:
        """Replace all rows, in memory and on disk."""
        self._held.forget(number)
        self._spilled[number].forget()
        width = int(self._held.stores["slot_words"][number])
        self._held.take(number, records.reshape(-1, width))
        self._spilled[number].add(spilled.reshape(-1, width))

    def _records(self, number: int) -> Rows:
        """The rows of an input, in memory and on disk."""
        return np.concatenate([self._held.records(number), self._spilled[number].records()])

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
        rows, base = self._records(number), self._spec.inputs[number].layout.base
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
            records, held = self._records(number), int(self._held.stores["count"][number])
            last = first + len(records)
            for target, (i, column, _) in enumerate(carried):
                if i == number:
                    place = shape.layout.base - 2 + column
                    records[:, place] = rows[first:last, base + target]
            first = last
            self._take(number, records[:held], records[held:])

    def forget_codes(self) -> None:
        """Constants keep their codes, and rows are given back with new ones."""

    def describe(self) -> dict[str, Any]:
        names = ["count", "spilled", "spilled_deletions", "evicted", "returned", "peak"]
        covers = self._held.stores["one_result"]
        return {
            "mode": self._spec.mode.value,
            "watches": bool(self._frame.observes),
            "looks": False,
            "looked_in_vain": 0,
            "spill_above": self._context.spill_above,
            "windows": [w.describe() for w in self._spec.windows],
            # If rows are spilled, they leave when their result has come, whatever reads the output.
            "only_coming": self._spec.only_coming or self._exact,
            "inputs": [
                # A row on disk that has gone is there twice until both meet.
                {"rows": n, "aside": a - 2 * g, "evicted": e, "returned": r, "most": m}
                for n, a, g, e, r, m in self._held.stores[names].tolist()
            ],
            "file_bytes": sum(spilled.file_bytes for spilled in self._spilled),
            "one_result": [bool(c == CONFIRMED) for c in covers],
            "constraints": self._watch.describe(),
            "broken_keys": self._watch.broken_keys(),
            "lost": 0 if self._exact else self._loss.estimate(),
            "lossy": [self._lossy_words()] if self._loss.given_up[0] else [],
        }

    def __del__(self) -> None:
        held = getattr(self, "_held", None)
        if held is not None and not sys.is_finalizing():
            held.release()
