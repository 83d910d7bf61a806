"""Selection joins: very many members with one join over whole streams, each with boxes of its own.

An event is held once, whoever wants it; who wants a combination is found in one index over all
dimensions of all inputs (`index.py`, `box_trees.py`), in one of several forms
(`operators/selection_join/kernels/members.py`). All else is as in a join with windows inside: members may differ in
sizes of windows and constants of the residual. Istream reads what comes out; or groups and others
do, which must know what goes as well (`complete`): then every event is visited again when it leaves
windows, and what it was combined with is found in the same buffer.

What is saved does not depend on the form: the events. Who wants them is found again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.algebra.expressions import TRUE, is_true
from braid.jit import memory, records
from braid.operators.core.base import Context, State
from braid.operators.core.batch import Batch
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin, origin_of
from braid.operators.core.nodes import grown, signatures
from braid.operators.core.values import Words
from braid.operators.join.ring_state import Rings
from braid.operators.join.spec import JoinRecipe
from braid.operators.join.state import Holdings
from braid.operators.join.window_join import WindowJoinLogic
from braid.operators.select.logic import contents, form
from braid.operators.selection_join.forms import Chooser
from braid.operators.selection_join.index import Asked
from braid.operators.selection_join.kernels import boxes
from braid.operators.selection_join.kernels import selection_joins as kernel
from braid.operators.selection_join.kernels.boxes import SelectionFrame, Side
from braid.operators.selection_join.spec import SelectionJoinRecipe, SelectionJoinSpec
from braid.plan.predicates import Predicate

#: Nodes in lists that there is room for at first, for each input: at least, and for each node.
_LEAST_LISTED, _LISTED_PER_NODE = 1 << 14, 16
_NEVER = int(boxes.NEVER)
_ALWAYS = -(2**63)


class SelectionRings(Rings):
    """Events in rings; who wants them is asked of the index."""

    frame_type = SelectionFrame
    frame_words = SelectionFrame.stride // 8
    frame: SelectionFrame

    def size_sets(self, nodes: int) -> None:
        """Sets are lists here: one that the residual leaves may have all nodes."""
        super().size_sets(nodes)
        self._sets = np.zeros(2 * self.set_words + 64 * self.set_words + 8, np.int64)
        self.frame.sets = records.Words.at(self._sets)

    def _count(self, number: int, counts: Words) -> None:
        kernel.count_members(self.frame, number, records.Words.at(counts))


class SelectionJoinLogic(WindowJoinLogic):
    """All joins with one predicate over windows by time on whole streams."""

    _rings: SelectionRings
    _loop = staticmethod(kernel.run)
    _let_leave = staticmethod(kernel.let_leave)
    _expire_from = staticmethod(kernel.expire_from)

    def __init__(self, spec: SelectionJoinSpec, context: Context) -> None:
        inputs = len(spec.inputs)
        self._sieves = [Asked(shape) for shape in spec.inputs]
        self._admitted: Words = np.full(64, _NEVER, np.int64)
        self._births: Words = np.full(64, _ALWAYS, np.int64)
        self._ages: Words = np.zeros(inputs, np.int64)
        self._shortest: Words = np.zeros(inputs, np.int64)
        self._side_records = np.zeros(inputs, Side.dtype)
        self._key_words: Words = np.zeros(1, np.int64)
        self._lists: Words = np.zeros(1, np.int64)
        self._marks: Words = np.zeros(1, np.int64)
        self._moved = True
        self._not_kept = 0
        self._most_listed = max(1, context.selection_join.member_set_bytes // (4 * inputs))
        choice = context.selection_join.form
        self._chooser = Chooser(choice, self._sieves, self._wanting, complete=spec.complete)
        super().__init__(spec, context)
        self._give_room(_LEAST_LISTED)

    def _make_holdings(self) -> Holdings:
        self._rings = SelectionRings(self._windows.inputs, self._keys, self._windows.netted)
        return self._rings

    # ---- members ----

    def admit(
        self, recipe: JoinRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        assert isinstance(recipe, SelectionJoinRecipe)
        own = [*recipe.constants[: self._residual.own], *self._residual.fixed]
        more = self._more_content(recipe, constants)
        asked = [Predicate((clause,), TRUE, ()) for clause in recipe.asked]
        content = [w for c in own for w in constants.content(c)]
        content += [w for predicate in asked for w in contents(predicate, constants)]
        what = ("selection join", recipe.birth, *map(form, asked))
        numbers, rows = self.nodes.add(signatures(what, constants.count, [*content, *more]))
        if len(rows):
            new, part = numbers[rows], constants.chosen(rows)
            seeing = self._note(new, [np.broadcast_to(w, constants.count)[rows] for w in more])
            if own:
                askers = signatures("asks", len(rows), [w for c in own for w in part.content(c)])
                self._add_askers(new, askers, [part.words(c) for c in own])
            self._index(new, recipe, part)
            self._retire(new[~seeing])
            self._size()
        return origin_of(self.nodes, numbers)

    def _index(self, nodes: Words, recipe: SelectionJoinRecipe, constants: Constants) -> None:
        wider = False
        for asked, clause in zip(self._sieves, recipe.asked, strict=True):
            wider |= asked.add(nodes, clause, constants)
        room = len(self._sieves[0].boxes)
        self._admitted = grown(self._admitted, room, _NEVER)
        self._births = grown(self._births, room, _ALWAYS)
        self._admitted[nodes] = self._rings.frame.changes
        self._births[nodes] = _ALWAYS if recipe.birth is None else recipe.birth
        self._rings.frame.born_later |= recipe.birth is not None
        self._chooser.added(nodes, wider=wider)
        self._moved = True
        if not self.instances:
            self._give_room(_LISTED_PER_NODE * self.nodes.count)

    def _retire(self, nodes: Words) -> None:
        """These nodes want nothing any more; their numbers may become others'."""
        nodes = nodes[self._admitted[nodes] != _NEVER]
        if len(nodes):
            self._admitted[nodes] = _NEVER
            for asked in self._sieves:
                asked.remove(nodes)
            self._chooser.removed(nodes)
            self._rings.frame.changes += 1
            self._moved = True

    def _wanting(self) -> Words:
        """The nodes that want anything."""
        return np.flatnonzero(self._admitted != _NEVER)

    def _size(self) -> None:
        """Room for all nodes, wherever there are any."""
        if self.nodes.high > 64 * self._holdings.set_words:
            self._holdings.size_sets(self.nodes.high + self.nodes.high // 2)
        self._count_everyone()
        if self._bands:
            self._size_bands()

    def dismiss(self, numbers: Words) -> Words:
        gone = self.nodes.release(numbers)
        if not len(gone):
            return gone
        if not is_true(self._residual.late):
            self._askers.retire(self._askers.release(self._asker_of[gone]))
        for node in gone.tolist():
            self.stopped.pop(node, None)
        self._retire(gone)
        if not len(self._living()):
            self._forget()
        self._count_everyone()
        return gone

    def _give_up(self, nodes: Words, times: Sequence[int]) -> None:
        self._retire(nodes)
        self.stopped |= dict(zip(nodes.tolist(), times, strict=True))
        self._count_everyone()
        if not len(self._living()):
            self._forget()
        self._point()

    def _check_budget(self) -> None:
        """Nobody holds more than all that is held."""
        budget, held = self._context.instance_budget, self.instances
        if held <= budget:
            self._holdings.frame.allowed = budget - held
        else:
            super()._check_budget()

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        found = super().on_batch(inputs, bound)
        self._make_room()
        self._chooser.consider(self._rings.frame, self._holdings.counts())
        return found

    def _expire_again(self) -> None:
        """Who wants an event is found when it leaves: members come and go without a trace in it."""

    def _make_room(self) -> None:
        """More room for lists, if some were not kept for want of it and there may be more."""
        counts = self._rings.frame.counts
        if counts.not_kept == self._not_kept:
            return
        self._not_kept = counts.not_kept
        usual = counts.first_found // max(1, counts.first_steps) + 1
        self._give_room(2 * usual * max(self._holdings.counts()))

    def _give_room(self, wanted: int) -> None:
        for number, asked in enumerate(self._sieves):
            room = min(max(wanted, 2 * asked.list_room), self._most_listed)
            if wanted > asked.list_room and room > asked.list_room:
                before = asked.size_lists(room)
                if self.instances:
                    kernel.move_lists(self._rings.frame, number, before, asked.lists)
                else:
                    self._side_records[["written", "tail"]][number] = 0
                self._moved = True

    def _point(self) -> None:
        if self._resized:
            living = self._living()
            self._shortest[:] = [of_all[living].min(initial=2**62) for of_all in self._sizes]
        super()._point()
        if not (self._moved or self._chooser.moved):
            return
        self._moved = False
        frame, room = self._rings.frame, len(self._sieves[0].boxes)
        first = 0
        frame.sides = Side.at(self._side_records)
        for number, asked in enumerate(self._sieves):
            if self._chooser.lays_strips:
                asked.lay(self._wanting)
            asked.point(frame.sides[number], first)
            first += asked.dimensions
        if len(self._key_words) < first + 1:
            self._key_words = np.zeros(first + 1, np.int64)
        # A list for each level and one for the event that drives; they are scratch in between.
        size = max(512, room) + 8
        if len(self._lists) < (len(self._sieves) + 1) * size:
            self._lists = np.zeros((len(self._sieves) + 1) * size, np.int64)
        if len(self._marks) <= room // 64:
            self._marks = np.zeros(room // 64 + 1, np.int64)
        frame.node_room, frame.strip_words = size, room // 64
        frame.lists = records.Words.at(self._lists)
        frame.first_list = frame.lists.after(len(self._sieves) * size)
        frame.marked = records.Words.at(self._marks)
        frame.since, frame.births = records.Words.at(self._admitted), records.Words.at(self._births)
        frame.keys, frame.ages = records.Words.at(self._key_words), records.Words.at(self._ages)
        frame.shortest = records.Words.at(self._shortest)
        self._chooser.point(frame)

    # ---- state ----

    def _forget(self) -> None:
        """Hold nothing."""
        self._holdings.forget()
        self._side_records[["written", "tail"]] = 0

    def restore(self, state: State) -> None:
        super().restore(state)
        self._side_records[["written", "tail"]] = 0
        kernel.forget_lists(self._rings.frame)

    @property
    def state_bytes(self) -> int:
        return super().state_bytes + sum(asked.list_bytes for asked in self._sieves)

    @property
    def index_bytes(self) -> int:
        own = (self._admitted, self._births, self._lists, self._marks)
        asked = sum(a.nbytes for a in self._sieves) + self._chooser.nbytes
        asked += 8 * int(self._side_records["near_room"].sum())
        return super().index_bytes + asked + sum(array.nbytes for array in own)

    def __del__(self) -> None:
        if not sys.is_finalizing():
            for at in getattr(self, "_side_records", np.zeros(0, Side.dtype))["near"].tolist():
                memory.free(at)
        super().__del__()

    def describe(self) -> dict[str, Any]:
        counts = self._rings.frame.counts
        dimensions = [
            f"{number}.{name}" for number, a in enumerate(self._sieves) for name in a.names()
        ]
        return {
            **super().describe(),
            "dimensions": dimensions,
            **self._chooser.describe(),
            "lists_kept": counts.kept,
            "lists_not_kept": counts.not_kept,
            "list_bytes": sum(asked.list_bytes for asked in self._sieves),
        }
