"""Joins: combinations of rows of several relations, all members at once.

Members share the predicate and differ in what their inputs hold: in selections below (precision
sharing), in windows (shared join evaluation), and in constants of the residual. Each distinct row
is held once, with the set of output nodes that have it; probing and composing is done once for
all members, and a combination is of the nodes that are in the sets of all its rows.

The law: the sum of all deltas that a member has got is at each instant the product, over its
inputs, of the sums of theirs, of which equalities and residual are true.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braid.algebra.expressions import Source, is_true
from braid.algebra.relations import place
from braid.jit import codegen, memory, records
from braid.jit.runtime import address
from braid.operators.core import checks
from braid.operators.core.base import Context, State
from braid.operators.core.batch import Batch
from braid.operators.core.constants import Constants
from braid.operators.core.fanout import Fanout
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.nodes import Nodes, grown, signatures
from braid.operators.core.values import Words
from braid.operators.join.bands import band_words, bands_of
from braid.operators.join.held_rows import HoldsRows
from braid.operators.join.kernels import joins
from braid.operators.join.kernels.frame import Source as OutputColumn
from braid.operators.join.probe_orders import Lookup, Orders, Probe, band_keys, keys_of, residual_of
from braid.operators.join.spec import JoinRecipe, JoinSpec
from braid.operators.join.state import Holdings, packed, taken
from braid.plan.specs import Shape

#: Deltas before which orders are not chosen again.
_ROUND = 8192
#: After so many deltas, or as many as there are rows, bands are fitted to the values.
_FIT_ROUND = 256


class JoinLogic(HoldsRows):
    """All joins with one predicate over the same channels."""

    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(self, spec: JoinSpec, context: Context) -> None:
        assert len(spec.inputs) > 1
        self._spec = spec
        self._context = context
        self._bands = bands_of(spec)
        self._keys = (*keys_of(spec), *band_keys(spec, self._bands))
        self._holdings = self._make_holdings()
        self._holdings.frame.allowed = context.instance_budget
        #: Output nodes that held too many rows, and when.
        self.stopped: dict[int, int] = {}
        self._orders = Orders(self._keys, len(spec.inputs))
        self._order: list[list[Probe]] = []
        self._measured: dict[Lookup, tuple[int, int, int]] = {}
        self._since = 0
        self._unfitted = 0
        self.nodes = Nodes()
        self._sides = [Side(membered) for membered in spec.membered]
        self._askers = Nodes()
        self._asker_of: Words = np.zeros(8, np.int64)
        self._parameters: Words = np.zeros((8, 1), np.int64)
        self._answers: Words = np.zeros(8, np.int64)
        self._everyone: Words = np.zeros(1, np.int64)
        self._fixed_parts: list[Words] = []
        self._compile()
        self._describe_inputs()
        self._choose()

    @property
    def _shapes(self) -> tuple[Shape, ...]:
        return self._spec.inputs

    def _make_holdings(self) -> Holdings:
        return Holdings(self._spec.inputs, self._keys)

    # ---- what is compiled ----

    def _compile(self) -> None:
        residual = self._residual = residual_of(self._spec)
        places = {Source.INPUT: codegen.Place("e", residual.layout)}
        self._early = self._late = codegen.always
        constants: list[int] = []
        if not is_true(residual.early):
            function = codegen.predicate(residual.early, places)
            self._early = function.compiled
            constants = [self._word(p.value) for p in function.parameters]
        if not is_true(residual.late):
            self._late = codegen.predicate(residual.late, places).compiled
        self._plain = not any(self._spec.membered) and is_true(residual.late)
        self._asked: Words = np.zeros(residual.layout.width, np.int64)
        frame, layout = self._holdings.frame, self._spec.output.layout
        frame.early_constants = records.Words(self._kept(constants))
        frame.late = not is_true(residual.late)
        frame.plain = self._plain
        frame.asked = records.Words.at(self._asked)
        frame.asked_base = residual.layout.base
        frame.first_flag = len(residual.columns)
        frame.flags = len(residual.groups)
        frame.out_base = layout.base
        frame.emitted = len(self._spec.emit)
        columns = [(i, self._spec.inputs[i].layout.column(name)) for _, i, name in self._spec.emit]
        frame.emit = OutputColumn(self._kept([w for pair in columns for w in pair]))

    def _word(self, value: int | str) -> int:
        return self._context.values.strings.pin(value) if isinstance(value, str) else value

    def _kept(self, values: list[int]) -> int:
        part = np.array([*values, 0], np.int64)
        self._fixed_parts.append(part)
        return int(address(part))

    def _describe_inputs(self) -> None:
        """What rows of each input are asked by themselves, and what the residual sees of them."""
        shown = [place(name) for name in self._residual.columns]
        for number, (shape, feed) in enumerate(
            zip(self._spec.inputs, self._holdings.feeds, strict=True)
        ):
            checks = [w for key in self._keys for w in key.checks(number)]
            pairs = [
                w
                for target, (i, name) in enumerate(shown)
                if i == number
                for w in (shape.layout.column(name), target)
            ]
            feed["checks"], feed["check_count"] = self._kept(checks), len(checks) // 4
            feed["shown"], feed["shown_count"] = self._kept(pairs), len(pairs) // 2
            feed["row_words"] = shape.layout.width
            feed["membered"] = self._spec.membered[number]

    # ---- members ----

    def admit(
        self, recipe: JoinRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        inputs = [
            (origin if side.membered else None) or nobody(constants.count)
            for origin, side in zip(origins, self._sides, strict=True)
        ]
        own = [*recipe.constants[: self._residual.own], *self._residual.fixed]
        more = self._more_content(recipe, constants)
        content = [*(w for c in own for w in constants.content(c)), *more]
        columns = [c for origin in inputs for c in origin.signatures.T.copy()]
        numbers, rows = self.nodes.add(signatures("join", constants.count, [*columns, *content]))
        if len(rows):
            state = self.snapshot() if self.instances else None
            new = numbers[rows]
            seeing = self._note(new, [np.broadcast_to(w, constants.count)[rows] for w in more])
            for origin, side in zip(inputs, self._sides, strict=True):
                side.add(origin, rows[seeing], new[seeing])
            if own:
                part = constants.chosen(rows)
                askers = signatures("asks", len(rows), [w for c in own for w in part.content(c)])
                self._add_askers(new, askers, [part.words(c) for c in own])
            self._resize(state)
        return origin_of(self.nodes, numbers)

    def _more_content(self, recipe: JoinRecipe, constants: Constants) -> list[Words]:
        """What else tells members apart."""
        return []

    def _note(self, nodes: Words, more: Sequence[Words]) -> np.ndarray:
        """Keep what else tells new output nodes apart; which of them see events at all."""
        return np.ones(len(nodes), np.bool_)

    def _add_askers(self, nodes: Words, wanted: Words, words: Sequence[Words]) -> None:
        """Note the constants of new output nodes; equal ones are asked once."""
        askers, fresh = self._askers.add(wanted)
        self._asker_of = grown(self._asker_of, int(nodes.max()) + 1)
        self._asker_of[nodes] = askers
        if self._parameters.shape[1] != len(words):
            self._parameters = np.zeros((8, len(words)), np.int64)
        self._parameters = grown(self._parameters, self._askers.high)
        self._answers = grown(self._answers, self._askers.high)
        for k, column in enumerate(words):
            of_each = np.broadcast_to(column, len(nodes))
            self._parameters[askers[fresh], k] = of_each[fresh]

    def _resize(self, state: State | None) -> None:
        """Give sets room for all nodes; what is held is taken up again."""
        if self.nodes.high > 64 * self._holdings.set_words or state is not None:
            self._holdings.forget()
            if self.nodes.high > 64 * self._holdings.set_words:
                # Room for half as many again: members may come one by one.
                self._holdings.size_sets(self.nodes.high + self.nodes.high // 2)
        self._count_everyone()
        if self._bands:
            self._size_bands()
        if state is not None:
            self.restore(state)

    def _size_bands(self) -> None:
        """As wide as the member wants that wants the widest."""
        living = self._askers.uses[: self._askers.high] > 0
        parameters = self._parameters[: self._askers.high][living]
        self._holdings.size_bands(
            [band_words(band, *band.widths(parameters)) for band in self._bands]
        )

    def _count_everyone(self) -> None:
        self._everyone = packed(self._living(), self._holdings.set_words)

    def _living(self) -> Words:
        """The output nodes that somebody uses and that have not given up."""
        living = self.nodes.uses[: self.nodes.high] > 0
        living[list(self.stopped)] = False
        return np.flatnonzero(living)

    def _seeing(self, nodes: Words) -> Words:
        """Those of some output nodes that see events at all."""
        return nodes[~np.isin(nodes, list(self.stopped))]

    def dismiss(self, numbers: Words) -> Words:
        """Members leave; the output nodes that nobody uses any more, whose rows are forgotten."""
        gone = self.nodes.release(numbers)
        if not len(gone):
            return gone
        seeing = self._seeing(gone)
        for side in self._sides:
            side.remove(seeing)
        if not is_true(self._residual.late):
            self._askers.retire(self._askers.release(self._asker_of[gone]))
        for node in gone.tolist():
            self.stopped.pop(node, None)
        if not len(self._living()):
            self._holdings.forget()
        elif self.instances:
            self._holdings.purge(gone)
        self._count_everyone()
        return gone

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        width = self._spec.output.layout.width
        if not any(len(batch) for batch in inputs) or not len(self._living()):
            nobody_ = None if self._plain else np.empty(0, np.int32)
            return Batch(np.empty((0, width), np.int64), nobody_, nobody_)
        alive = self._feed(inputs)
        self._point()
        self._run(joins.run)
        del alive
        rows, index, members = taken(self._holdings.frame, width)
        batch = Batch(rows) if self._plain else Batch(rows, index, members)
        self._tend(sum(len(b.rows) for b in inputs))
        return batch

    def _run(self, run: Callable[..., None]) -> None:
        """Take all that has come; from time to time it is looked who holds too much."""
        frame = self._holdings.frame
        run(frame, self._early, self._late)
        while frame.allowed < 0:
            self._check_budget()
            if not len(self._living()):
                return  # what else has come is nobody's
            run(frame, self._early, self._late)

    def _check_budget(self) -> None:
        """Output nodes that hold more rows than they may give up."""
        budget, living = self._context.instance_budget, self._living()
        counts = self._holdings.held_by(self.nodes.high)[living]
        over = living[counts > budget]
        if len(over):
            self._give_up(over, [self._latest()] * len(over))
        most = int(counts[counts <= budget].max(initial=0))
        self._holdings.frame.allowed = budget - most

    def _latest(self) -> int:
        """The time of the row that has just come."""
        # The row before the next one of each input; the latest of them has just come.
        feeds = self._holdings.feeds
        came = feeds[feeds["row"] > 0]
        ends = came["rows"] + 8 * (came["row"] - 1) * came["row_words"]
        return max(int(memory.view(at, 2)[1]) for at in ends.tolist())

    def _give_up(self, nodes: Words, times: Sequence[int]) -> None:
        """Nodes see and hold nothing from now on."""
        seeing = self._seeing(nodes)
        for side in self._sides:
            side.remove(seeing)
        self.stopped |= dict(zip(nodes.tolist(), times, strict=True))
        self._holdings.purge(nodes)
        self._count_everyone()
        if not len(self._living()):
            self._holdings.forget()
        self._point()

    def _feed(self, inputs: Sequence[Batch]) -> list[np.ndarray]:
        """Lay out what has come; the arrays must live while it is read."""
        alive: list[np.ndarray] = []
        for batch, side, feed in zip(inputs, self._sides, self._holdings.feeds, strict=True):
            rows = np.ascontiguousarray(batch.rows if side.membered else batch.alone())
            feed["rows"], feed["count"] = address(rows), len(rows)
            feed["row"] = 0
            alive.append(rows)
            if side.membered:
                starts, members = _members(batch)
                feed["starts"] = address(starts)
                feed["members"] = address(members)
                alive += [starts, members]
        return alive

    def _point(self) -> None:
        """Say where tables are now: they move when they grow."""
        frame = self._holdings.frame
        self._asked[:] = 0
        frame.everyone = records.Words.at(self._everyone)
        frame.askers = records.Words.at(self._asker_of)
        frame.answers = records.Words.at(self._answers)
        frame.parameter_rows = records.Words.at(self._parameters)
        frame.parameters = self._parameters.shape[1]
        frame.strings = int(address(self._context.values.strings.description))
        for side, feed in zip(self._sides, self._holdings.feeds, strict=True):
            heads, following = side.fanout.tables
            feed["fans"], feed["fan_count"] = address(heads), len(heads)
            feed["fan_next"] = address(following)

    def _tend(self, deltas: int) -> None:
        """Choose orders again and give memory back, when as many deltas have gone by as there are
        rows: constant work for each."""
        self._unfitted += deltas
        if self._bands and self._unfitted >= max(_FIT_ROUND, self.instances):
            self._unfitted = 0
            self._holdings.fit_bands()
        self._since += deltas
        if self._since < max(_ROUND, self.instances):
            return
        self._since = 0
        if len(self._spec.inputs) > 2:
            self._choose()
        if self._holdings.roomy:
            state = self.snapshot()
            self.restore(state)

    def _choose(self) -> None:
        for lookup, measure in self._holdings.measures().items():
            self._orders.measured(lookup, measure[0], measure[2])
            if measure[0]:
                self._measured[lookup] = measure
        order = self._orders.chosen(self._holdings.counts())
        if order != self._order:
            self._order = order
            self._holdings.follow(order, self._residual.groups)

    # ---- state ----

    @property
    def instances(self) -> int:
        """Rows that are held."""
        return sum(self._holdings.counts())

    @property
    def state_bytes(self) -> int:
        return self._holdings.nbytes

    @property
    def index_bytes(self) -> int:
        own = (self._asker_of, self._parameters, self._answers, self._everyone)
        tables = self.nodes.nbytes + self._askers.nbytes + sum(s.nbytes for s in self._sides)
        return tables + sum(array.nbytes for array in own)

    def snapshot(self) -> State:
        """Of each input: rows, who holds them how often, and what the nodes in that stand for."""
        state: State = {}
        for number, side in enumerate(self._sides):
            local, known = side.numbered(self.nodes.high)
            cells, words = self._holdings.cells(number, local, len(known))
            state[f"rows{number}"] = self._holdings.rows(number)
            state[f"cells{number}"], state[f"sets{number}"] = cells, words
            state[f"nodes{number}"] = known
        return state | self._saved_stops()

    def _saved_stops(self) -> State:
        nodes, budget = list(self.stopped), self._context.instance_budget
        times = [(at, budget) for at in self.stopped.values()]
        stops = np.array(times, np.int64).reshape(-1, 2)
        return {"stopped": np.concatenate([self.nodes.signatures[nodes], stops], axis=1)}

    def _restore_stops(self, state: State) -> None:
        """With a larger budget a node goes on from now; what it held is gone."""
        entries = state["stopped"].reshape(-1, 4)
        found = self.nodes.find(np.ascontiguousarray(entries[:, :2]))
        known = (found >= 0) & (self._context.instance_budget <= entries[:, 3])
        known &= ~np.isin(found, list(self.stopped))
        if known.any():
            self._give_up(found[known], entries[known, 2].tolist())

    def restore(self, state: State) -> None:
        """Take up saved rows, and nothing else; members are there already, under whatever
        numbers."""
        self._holdings.forget()
        self._point()
        for number, (side, shape) in enumerate(zip(self._sides, self._spec.inputs, strict=True)):
            known = checks.table(state, f"nodes{number}", 2)
            self._holdings.hold(
                number,
                checks.table(state, f"rows{number}", shape.layout.width),
                checks.table(state, f"cells{number}", 4),
                state[f"sets{number}"],
                len(known),
                side.found(known),
            )
        self._restore_stops(state)

    def forget_codes(self) -> None:
        """Constants keep their codes, and rows are given back with new ones."""

    def describe(self) -> dict[str, Any]:
        measured = dict(self._measured)
        for lookup, measure in self._holdings.measures().items():
            self._orders.measured(lookup, measure[0], measure[2])
            if measure[0]:
                measured[lookup] = self._measured[lookup] = measure
        return {
            "nodes": self.nodes.count,
            "bands": len(self._bands),
            "inputs": self._holdings.describe(),
            "orders": [[probe.lookup[0] for probe in order] for order in self._order],
            "probes": [
                {
                    "input": number,
                    "keys": [self._key_name(k, number) for k in keys],
                    "found": round(found / probes, 3),
                    "wanted": round(wanted / probes, 3),
                }
                for (number, keys), (probes, found, wanted) in sorted(measured.items())
            ],
        }

    def _key_name(self, key: int, number: int) -> str:
        return self._spec.inputs[number].layout.names[self._keys[key].columns[number][0]]

    def __del__(self) -> None:
        holdings = getattr(self, "_holdings", None)
        if holdings is not None and not sys.is_finalizing():
            holdings.release()


class Side:
    """The nodes of one input, what they are, and the output nodes that use them."""

    def __init__(self, membered: bool) -> None:
        self.membered = membered
        self.fanout = _Fans()
        self._signatures: Words = np.zeros((8, 2), np.int64)

    def add(self, origin: Origin, rows: Words, nodes: Words) -> None:
        if not self.membered or not len(rows):
            return
        sources = origin.numbers[rows]
        self.fanout.add(sources, nodes)
        self._signatures = grown(self._signatures, int(sources.max()) + 1)
        self._signatures[sources] = origin.signatures[rows]

    def remove(self, nodes: Words) -> None:
        if self.membered:
            self.fanout.remove(nodes)

    def _used(self) -> Words:
        """The nodes that some output node uses."""
        return np.flatnonzero(self.fanout.tables[0] >= 0)

    def numbered(self, high: int) -> tuple[Words, Words]:
        """For each output node, the place of its input node among those in use, or -1 if another
        output node speaks for it; and the signatures of these."""
        used, heads = self._used(), self.fanout.tables[0]
        local = np.full(64 * ((high + 63) // 64 + 1), -1, np.int64)
        local[heads[used]] = np.arange(len(used))
        return local, self._signatures[used]

    def found(self, wanted: Words) -> Words:
        """The node with each signature, or a number above all nodes."""
        used, nowhere = self._used(), len(self.fanout.tables[0])
        if not len(used) or not len(wanted):
            return np.full(len(wanted), nowhere, np.int64)
        known = np.ascontiguousarray(self._signatures[used]).view(_PAIR).ravel()
        asked = np.ascontiguousarray(wanted).view(_PAIR).ravel()
        order = np.argsort(known, kind="stable")
        at = np.minimum(np.searchsorted(known[order], asked), len(order) - 1)
        return np.where(known[order][at] == asked, used[order[at]], nowhere)

    @property
    def nbytes(self) -> int:
        return self.fanout.nbytes + self._signatures.nbytes


class _Fans(Fanout):
    """Output nodes of each input node, for kernels that walk through them."""

    @property
    def tables(self) -> tuple[Words, Words]:
        """The first output node of each input node, and the next one of each output node."""
        return self._heads, self._next


_PAIR = np.dtype([("a", np.int64), ("b", np.int64)])


def _members(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Where the members of each row begin, and the members."""
    places = np.arange(len(batch.rows) + 1, dtype=np.int64)
    if batch.index is None or batch.members is None:
        return places, np.zeros(len(batch.rows), np.int32)
    starts = np.searchsorted(batch.index, places.astype(batch.index.dtype))
    return starts.astype(np.int64, copy=False), np.ascontiguousarray(batch.members, np.int32)
