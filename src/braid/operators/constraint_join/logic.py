"""A join that evicts rows which can't join any more: see `docs/constraints.md`.

The law: its output up to an instant, for Istream, is what comes to the product of its windows; if rows
are dropped instead of spilled, a part of that.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import thread_time
from typing import Any

import numpy as np

from braid.algebra.constraints import ConstraintMode
from braid.algebra.types import Kind, kind_of
from braid.errors import damaged
from braid.jit.runtime import address
from braid.jit.vector import take_words
from braid.operators.constraint_join.fields import read_fields, write_fields
from braid.operators.constraint_join.kernels.join import TAKEN, WANTED, pass_time, run
from braid.operators.constraint_join.kernels.records import Tail
from braid.operators.constraint_join.output import Output
from braid.operators.constraint_join.passthrough import Passthrough
from braid.operators.constraint_join.result_expiry import ResultExpiry
from braid.operators.constraint_join.spec import STORES, ConstraintJoinSpec
from braid.operators.constraint_join.spill.rows import SpilledRows
from braid.operators.constraint_join.state import SAVED, Stores
from braid.operators.constraint_join.watch.cost_probe import CostProbe
from braid.operators.constraint_join.watch.loss_estimate import Lossy
from braid.operators.constraint_join.watch.report import Broken
from braid.operators.constraint_join.watch.watch import Watch
from braid.operators.core import checks
from braid.operators.core.base import Context, Held, OneForAll, State
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows
from braid.operators.core.roles import UsesConstraints
from braid.operators.core.values import Words
from braid.operators.join.growing import GrowingJoinLogic, plain_join
from braid.operators.join.probe_orders import keys_of
from braid.operators.join.spec import PLAIN, GrowingJoinSpec
from braid.operators.join.window_join import WindowJoinLogic
from braid.operators.window.logic import last_order, seen_since
from braid.plan.layout import Layout

#: The events after which Python collects and writes rows.
_ROUND = 4096


class ConstraintJoinLogic(OneForAll, UsesConstraints):
    """One join with its windows and constants, for all queries that have the same."""

    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(
        self, spec: ConstraintJoinSpec, context: Context, plain: WindowJoinLogic | None = None
    ) -> None:
        """`plain`: the plain join that has grown, with what it holds."""
        self._spec, self._context = spec, context
        self._keys = keys_of(spec)
        self._held = Stores(spec, self._keys)
        self._frame = self._held.frame
        self._spilled = [SpilledRows(self._held, number) for number in range(len(spec.inputs))]
        self._compile()
        by_time = [w.size for w in spec.windows if w.kind == "range"]
        by_rows = [w.size for w in spec.windows if w.kind == "rows"]
        self._expiries: ResultExpiry | None = None
        if by_time or by_rows:
            longest = max(by_time) if by_time else None
            self._expiries = ResultExpiry(spec.output, longest, by_rows, context.values)
            self._frame.expiry_words = 1 + len(by_rows)
        self._frame.spills = spec.mode is ConstraintMode.EXACT
        self._frame.budget = _ROUND
        self._watch = Watch(spec, self._held, self._keys, context.watching)
        self._probe = CostProbe(self._held, self._watch, context.watching.worth)
        self._passthrough: Passthrough | None = None
        #: Whether events are handed over from the plain join: then no row leaves because of them.
        self._is_taking = False
        exact = spec.mode is ConstraintMode.EXACT
        above = context.spill_above if exact else 0
        may_rest = not spec.declared and spec.netted and (above or context.watching.worth)
        if plain is not None or may_rest:
            self._passthrough = self._rest(plain)
            self._watch.drop_tables()
        elif not spec.declared and above:
            self._watch.rest()
        self.stopped: dict[int, int] = {}

    # ---- what is compiled ----

    def _compile(self) -> None:
        self._made = Output(self._spec, self._context, self._frame)
        self._residual, self._never = self._made.residual, self._made.never

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        width = self._spec.output.layout.width
        if self.stopped or self._never:
            return Batch(np.empty((0, width), np.int64))
        started, came = thread_time(), sum(len(batch.rows) for batch in inputs)
        if self._passthrough is not None:
            found = self._plain(self._passthrough, inputs, bound)
            self._probe.plain.note(came, thread_time() - started)
            return found
        out = self._joined(inputs, bound)
        self._probe.events += came
        self._probe.own.note(came, thread_time() - started)
        may_rest = self._spec.netted and not self._spec.declared and not self.stopped
        if may_rest and not self._probe.is_worth_it(self.state_bytes):
            self._go_back()
        return Batch(out)

    # ---- without constraints ----

    def _rest(self, plain: WindowJoinLogic | None = None) -> Passthrough:
        return Passthrough(self._spec, plain or plain_join(self._spec.plain, self._context))

    def _plain(self, passthrough: Passthrough, inputs: Sequence[Batch], bound: int) -> Batch:
        """Join as if there were no constraints, and sample whether they would be worth it."""
        rows = passthrough.on_batch(inputs, bound).rows
        self.stopped = dict(passthrough.stopped)
        if self._expiries is not None and not self._expiries.is_empty:
            rows = self._expiries.cancel(rows, bound)
        exact = self._spec.mode is ConstraintMode.EXACT
        little = exact and passthrough.nbytes <= self._context.spill_above
        if self.stopped or (little and not self._probe.is_on):
            return Batch(rows)
        if not self._context.watching.worth:
            self._wake(passthrough)
            return Batch(rows)
        if self._probe.passes_over([len(batch) for batch in inputs]):
            return Batch(rows)
        own = [self._in_order(number, batch) for number, batch in enumerate(inputs)]
        results = int(np.maximum(rows[:, -1], 0).sum())
        if self._probe.observe(own, bound, results, passthrough.counts):
            self._wake(passthrough)
        return Batch(rows)

    def _wake(self, passthrough: Passthrough) -> None:
        """Take the rows of the plain join. Their results are known, but not when these expire."""
        rows, bytes_ = passthrough.rows, passthrough.nbytes
        self._passthrough = None
        if self._probe.is_on:
            self._probe.end()
        self._watch.make_tables()
        self._probe.leave_plain(bytes_, sum(map(len, rows)))
        # Events that WHERE rejected are among those that came, and not among those that are held.
        arrived = self._held.stores["arrivals"]
        arrived -= [min(len(own), n) for own, n in zip(rows, arrived.tolist(), strict=True)]
        self._take_over(rows)

    def _take_over(self, rows: Sequence[Rows]) -> None:
        if any(map(len, rows)):
            last = max(int(own[-1, 1]) for own in rows if len(own))
            self._is_taking = True
            with self._watch.unaware():
                self._joined([Batch(own) for own in rows], last)
            self._is_taking = False

    def _go_back(self) -> None:
        """Join without constraints again, with all rows in memory and on disk."""
        now, held = self._frame.now, self._held.stores["count"].sum()
        if held + sum(self._held.stores["spilled"]) > self._context.instance_budget // 2:
            return
        rows = [self._rows_of(number, now) for number in range(len(self._spilled))]
        passthrough = self._rest()
        passthrough.take(rows, now)
        for number, spilled in enumerate(self._spilled):
            self._held.forget(number)
            spilled.forget()
        assert self._expiries is not None
        if self._spec.mode is not ConstraintMode.EXACT:
            # Of results whose rows are all there, the plain join knows when they go.
            before = self._expiries.entries()
            self._expiries.forget()
            self._frame.now = -(2**63)
            arrived = self._held.stores["arrivals"].copy()
            self._watch.forget_results()
            self._take_over(rows)
            self._held.stores["arrivals"] = arrived
            self._expiries.keep_others(before, self._expiries.entries())
            for number in range(len(self._spilled)):
                self._held.forget(number)
        else:
            self._expiries.forget()
        self._frame.now = -(2**63)
        self._probe.return_to_plain(sum(map(len, rows)))
        self._watch.drop_tables()
        self._passthrough = passthrough

    def _rows_of(self, number: int, now: int) -> Rows:
        """The events of an input, in memory and on disk, the oldest first."""
        parts = [self._held.records(number), self._spilled[number].records(now)]
        width = self._spec.inputs[number].layout.width
        records = np.concatenate(parts)
        order = np.argsort(records[:, width + Tail.word("number")], kind="stable")
        return np.ascontiguousarray(records[order, :width])

    # ---- with constraints ----

    def _joined(self, inputs: Sequence[Batch], bound: int) -> Rows:
        width = self._spec.output.layout.width
        rows = [self._in_order(number, batch) for number, batch in enumerate(inputs)]
        before = self._held.stores["arrivals"].copy()
        self._held.feed(rows)
        frame = self._frame
        frame.strings = address(self._context.values.strings.description)
        self._run()
        pass_time(frame, bound)
        for spilled in self._spilled:
            spilled.pass_time(bound)
        self._tend()
        out = take_words(frame.out).reshape(-1, width)
        frame.out_rows = 0
        if self._expiries is not None:
            leaves = take_words(frame.expiries).reshape(-1, frame.expiry_words)
            by_rows = [i for i, w in enumerate(self._spec.windows) if w.kind == "rows"]
            ends = [(int(before[i]), rows[i][:, 1]) for i in by_rows]
            out = self._expiries.without_cancelled(out, leaves, bound, ends)
        return out

    def _in_order(self, number: int, batch: Batch) -> Rows:
        inside, shape = self._spec.windows[number], self._spec.inputs[number]
        rows = seen_since(batch, False, self._spec.birth).rows
        if inside.kind == "rows":
            order = last_order(rows, shape, inside.order, self._context.values)
            rows = rows if order is None else np.ascontiguousarray(rows[order])
        return rows

    def _run(self) -> None:
        while True:
            started = thread_time()
            status = run(self._frame, self._residual)
            self._watch.choice.seconds += thread_time() - started
            if status == TAKEN:
                return
            if status == WANTED:
                self._bring_back()
            else:
                self._tend()
                if self.stopped:
                    return

    def _bring_back(self) -> None:
        """Reload the rows that an event looks up, and remember that no more are on disk."""
        index = self._frame.wanted_index
        hash_ = self._frame.wanted_hash
        spilled = self._spilled[int(self._held.indexes["store"][index])]
        spilled.bring_back(index, hash_, self._frame.now)
        event = tuple(self._held.feeds["row"].tolist())
        self._held.absent.note(index, hash_, event)
        self._held.point_absent()

    def _tend(self) -> None:
        """Evict rows, and write evicted rows to disk."""
        if not self._watch.is_awake and self._held.nbytes > self._context.spill_above:
            self._watch.resume()
        if self._watch.is_awake and not self._is_taking:
            self._watch.act()
            for spilled in self._spilled:
                spilled.write()
        self._held.tidy()
        held = int(self._held.stores["count"].sum())
        if held > self._context.instance_budget:
            self._give_up(self._frame.now)

    def _give_up(self, at: int) -> None:
        self.stopped, self._passthrough = {0: at}, None
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
        found, self._watch.lossy = self._watch.lossy, []
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
        if self._passthrough is not None:
            return sum(self._passthrough.counts)
        return int(self._held.stores["count"].sum())

    @property
    def state_bytes(self) -> int:
        rest = 0 if self._expiries is None else self._expiries.nbytes
        rest += 0 if self._passthrough is None else self._passthrough.nbytes
        return self._held.nbytes + rest + sum(a.nbytes for a in self._spilled) + self._watch.nbytes

    @property
    def index_bytes(self) -> int:
        return 0

    def snapshot(self) -> State:
        now = self._frame.now
        state: State = {STORES: np.append(read_fields(self._held.stores, SAVED).ravel(), now)}
        for number, spilled in enumerate(self._spilled):
            state[f"rows{number}"] = self._held.records(number)
            state[f"aside{number}"] = spilled.records(now)
        if self._expiries is not None:
            for number, entries in enumerate(self._expiries.saved()):
                state[f"going{number}"] = entries
        state |= self._watch.saved()
        state["look"] = self._probe.state()
        budget = self._context.instance_budget
        state["stopped"] = np.array([w for at in self.stopped.values() for w in (at, budget)])
        if self._passthrough is not None:
            state |= self._passthrough.snapshot()
        return state

    def restore(self, state: State) -> None:
        if self._probe.is_on:
            self._probe.end()
        if any(name.startswith(PLAIN) for name in state):
            self._restore_plain(state)
        else:
            self._passthrough = None
            self._restore_rows(state)
        self.stopped = {}
        if STORES not in state:
            return  # of a plain join that has not grown
        self._probe.take(state["look"])
        if len(state["stopped"]) and self._context.instance_budget <= state["stopped"][1]:
            self._give_up(int(state["stopped"][0]))

    def _restore_plain(self, state: State) -> None:
        """Go on as the plain join if that is still wanted; a sample starts again."""
        passthrough = self._passthrough or self._rest()
        passthrough.restore(state)
        if STORES in state:
            self._take_counts(state)
        if self._passthrough is None:
            self._wake(passthrough)

    def _take_counts(self, state: State) -> None:
        """What is known of events besides those that are held."""
        self._held.stores["arrivals"] = self._arrived(state)
        self._take_expiries(state)
        self._watch.take_loss(state)

    def _arrived(self, state: State) -> Words:
        """How many events have come to each input."""
        saved = state[STORES]
        checks.sized(saved, len(self._spilled) * len(SAVED) + 1, "what was counted of inputs")
        arrived: Words = saved[:-1].reshape(-1, len(SAVED))[:, 0]
        checks.within(arrived, 0, checks.NUMBERS, "numbers of events")
        return arrived

    def _restore_rows(self, state: State) -> None:
        saved, arrived = state[STORES], self._arrived(state)
        self._frame.now = saved[-1]
        write_fields(self._held.stores, SAVED, saved[:-1])
        for number, spilled in enumerate(self._spilled):
            record = int(self._held.stores["record_words"][number])
            self._held.forget(number)
            spilled.forget()
            rows = checks.table(state, f"rows{number}", record)
            others = checks.table(state, f"aside{number}", record)
            self._check_numbers(number, int(arrived[number]), rows, others)
            self._held.take(number, rows, oldest=False)
            spilled.add(others)
        self._take_expiries(state)
        self._watch.take(state)

    def _check_numbers(self, number: int, arrived: int, rows: Rows, spilled: Rows) -> None:
        """Rows are of events that have come and, of a window by rows, of the last ones."""
        store = self._held.stores[number]
        width, size, by_rows = store[["width", "size", "by_rows"]].tolist()
        first = max(arrived - size, 0) if by_rows and size >= 0 else 0
        for records in (rows, spilled):
            numbers = records[:, width + Tail.word("number")]
            checks.within(numbers, first + 1, arrived + 1, "numbers of events")
        if (np.diff(rows[:, width + Tail.word("number")]) <= 0).any():
            raise damaged("rows are not in the order in which they came")

    def _take_expiries(self, state: State) -> None:
        if self._expiries is not None:
            names = sorted(name for name in state if name.startswith("going"))
            arrivals = self._held.stores["arrivals"].tolist()
            by_rows = [
                n for n, w in zip(arrivals, self._spec.windows, strict=True) if w.kind == "rows"
            ]
            self._expiries.take([state[name] for name in names], by_rows)

    def held(self) -> Held | None:
        """All rows, in memory and on disk, with the columns that have codes."""
        if self._passthrough is not None:
            return self._passthrough.held()
        carried = self._carried()
        if not carried:
            return None
        layout = Layout(tuple(name for _, _, name in carried))
        types = tuple(self._spec.inputs[i].schema.attributes[c].type for i, c, _ in carried)
        now = self._frame.now
        parts = []
        for number, (shape, spilled) in enumerate(
            zip(self._spec.inputs, self._spilled, strict=True)
        ):
            rows = np.concatenate([self._held.records(number), spilled.records(now)])
            out = np.zeros((len(rows), layout.width), np.int64)
            for target, (i, column, _) in enumerate(carried):
                mask, bit = 2 + target // 64, np.int64(1) << np.int64(target % 64)
                if i == number:
                    out[:, layout.base + target] = rows[:, shape.layout.base + column]
                    null = (rows[:, 2 + column // 64] >> np.int64(column % 64)) & 1
                    out[:, mask] |= np.where(null != 0, bit, np.int64(0))
                else:
                    out[:, mask] |= bit
            parts.append(out)
        return Held(np.concatenate(parts), layout, types)

    def _carried(self) -> list[tuple[int, int, str]]:
        return [
            (i, column, f"{i}.{a.name}")
            for i, shape in enumerate(self._spec.inputs)
            for column, a in enumerate(shape.schema)
            if kind_of(a.type) in (Kind.STRING, Kind.OPAQUE)
        ]

    def replace_held(self, rows: Rows) -> None:
        """Take rows back with new codes: hashes of keys are others then."""
        if self._passthrough is not None:
            self._passthrough.replace_held(rows)
            return
        carried = self._carried()
        base = Layout(tuple(name for _, _, name in carried)).base
        now, first = self._frame.now, 0
        for number, (shape, spilled) in enumerate(
            zip(self._spec.inputs, self._spilled, strict=True)
        ):
            own = [(t, c) for t, (i, c, _) in enumerate(carried) if i == number]
            parts = [self._held.records(number), spilled.records(now)]
            for records in parts:
                last = first + len(records)
                for target, column in own:
                    records[:, shape.layout.base + column] = rows[first:last, base + target]
                first = last
            if own:
                self._held.forget(number)
                spilled.forget()
                self._held.take(number, parts[0], oldest=False)
                spilled.add(parts[1])

    def forget_codes(self) -> None:
        """Constants keep their codes, and rows are given back with new ones."""
        if self._probe.is_on:
            # The sample starts again: its rows are not given back.
            self._probe.end()
        self._watch.forget_codes()

    def describe(self) -> dict[str, Any]:
        names = ["count", "spilled", "evicted", "returned", "peak"]
        held = self._held.stores[names].tolist()
        found = self._watch.describe()
        if self._passthrough is not None:
            held = [[rows, 0, 0, 0, rows] for rows in self._passthrough.counts]
            found |= {"one_result": [False for _ in held], "constraints": []}
        return {
            "mode": self._spec.mode.value,
            "watches": self._watch.is_awake and self._passthrough is None,
            "looks": self._probe.is_on,
            "looked_in_vain": self._probe.vain,
            "spill_above": self._context.spill_above,
            "windows": [w.describe() for w in self._spec.windows],
            "inputs": [
                {"rows": n, "aside": a, "evicted": e, "returned": r, "most": m}
                for n, a, e, r, m in held
            ],
            "file_bytes": sum(spilled.file_bytes for spilled in self._spilled)
            + (0 if self._expiries is None else self._expiries.file_bytes),
            **found,
        }

    def __del__(self) -> None:
        held = getattr(self, "_held", None)
        if held is not None and not sys.is_finalizing():
            held.release()


def growing_join(spec: GrowingJoinSpec, context: Context) -> GrowingJoinLogic:
    """A plain join that uses constraints once it has grown."""
    beyond = spec.beyond
    assert isinstance(beyond, ConstraintJoinSpec)
    return GrowingJoinLogic(
        spec, context, lambda plain: ConstraintJoinLogic(beyond, context, plain)
    )
