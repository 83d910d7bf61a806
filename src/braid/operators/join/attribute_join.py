"""Joins over different attributes of the same streams: one buffer for all of them.

Joins with the same equalities that show the same columns are one *form*. A form has a port, nodes,
windows and probes of its own (`window_join.py`). All forms read the same events: an event is held
once, with the columns that some form asks for, and an index for each way of comparing that some
form asks for (`shared_rings.py`).

The law: the output of a member at its port is that of a window join of its form alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braid.algebra.schema import Schema
from braid.errors import damaged
from braid.jit import codegen
from braid.jit.runtime import address
from braid.operators.core import checks
from braid.operators.core.base import Context, State
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows, moved
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin
from braid.operators.core.roles import NodesByPort
from braid.operators.core.values import Words
from braid.operators.join.held_rows import HoldsRows
from braid.operators.join.kernels.attribute_joins import FirstProbe, run_forms
from braid.operators.join.shared_rings import RingView, SharedRings, with_columns
from braid.operators.join.spec import AttributeJoinRecipe, AttributeJoinSpec, WindowJoinSpec
from braid.operators.join.state import Holdings
from braid.operators.join.window_join import WindowJoinLogic
from braid.operators.window.logic import seen_since
from braid.plan.layout import Layout
from braid.plan.specs import Shape


class JoinForm(WindowJoinLogic):
    """One form of the join. It holds no events."""

    instances = 0

    def __init__(self, spec: WindowJoinSpec, context: Context, shared: SharedRings) -> None:
        self._shared = shared
        self._now = 0
        super().__init__(spec, context)

    def _make_holdings(self) -> Holdings:
        self.view = RingView(self._shared, self._windows.inputs, self._keys, self._windows.netted)
        self._rings = self.view
        return self.view

    def _latest(self) -> int:
        return self._now

    def is_ready(self) -> bool:
        """Point at what the kernels read; whether any node sees events."""
        self._point()
        return len(self._living()) > 0

    @property
    def allowed(self) -> int:
        """How many more events may come before someone checks how much nodes hold."""
        return self.view.frame.allowed

    def spend(self, events: int, now: int) -> bool:
        """So many events have come up to an instant; whether any node still sees events."""
        frame = self.view.frame
        frame.allowed -= events
        if frame.allowed < 0:
            frame.now = self._now = now
            self._check_budget()
        return len(self._living()) > 0

    def output(self, events: int) -> Batch:
        found = self._taken()
        self._tend(events)
        return found

    @property
    def windows(self) -> list[Words]:
        """The sizes of the windows of each input."""
        living = self._living()
        return [of_all[living] for of_all in self._sizes]

    @property
    def stops(self) -> Words:
        """The nodes that stopped, for the saved state."""
        return self._saved_stops()["stopped"]

    def take_stops(self, stops: Words) -> None:
        self._restore_stops({"stopped": stops})


class AttributeJoinLogic(HoldsRows, NodesByPort):
    """All joins by equalities of windows by time over the same streams."""

    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(self, spec: AttributeJoinSpec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self._forms: dict[str, JoinForm] = {}
        #: Of each input, the columns that events are held with.
        self._names: list[tuple[str, ...]] = [() for _ in spec.inputs]
        self._rings: SharedRings | None = None
        #: Of forms that are run together.
        self._probes: tuple[list[JoinForm], np.ndarray] | None = None

    @property
    def _shapes(self) -> tuple[Shape, ...]:
        return tuple(
            Shape(Schema.of((name, shape.schema.type_of(name)) for name in names))
            for shape, names in zip(self._spec.inputs, self._names, strict=True)
        )

    # ---- members ----

    def admit(
        self, recipe: AttributeJoinRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        form = self._forms.get(recipe.port)
        if form is None:
            form = self._forms[recipe.port] = self._new_form(recipe.form)
        return form.admit(recipe.members, constants, origins)

    def _new_form(self, spec: WindowJoinSpec) -> JoinForm:
        names = [
            (*known, *(n for n in shape.schema.names if n not in known))
            for known, shape in zip(self._names, spec.inputs, strict=True)
        ]
        if self._rings is None:
            self._names = names
            self._rings = self._holdings = SharedRings(self._shapes)
        elif names != self._names:
            state = self.snapshot() if self.instances else None
            self._rings.forget()
            self._names = names
            self._rings.grow(self._shapes)
            if state is not None:
                self.restore(state)
        return JoinForm(replace(spec, inputs=self._shapes), self._context, self._rings)

    def leave(self, port: str, numbers: Words) -> None:
        form = self._forms[port]
        gone = form.dismiss(numbers)
        if len(gone):
            form.nodes.retire(gone)
        if not form.nodes.count:
            form.view.leave()
            del self._forms[port]
        if not self._forms and self._rings is not None:
            self._rings.forget()

    def stopped_at(self, port: str) -> Mapping[int, int]:
        form = self._forms.get(port)
        return {} if form is None else form.stopped

    @property
    def stopped(self) -> Mapping[int, int]:
        """Nodes of all ports: whether there are any is what counts."""
        return {node: at for form in self._forms.values() for node, at in form.stopped.items()}

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Mapping[str, Batch]:
        rings, birth = self._rings, self._spec.birth
        ready = [form for form in self._forms.values() if form.is_ready()]
        if rings is None or not ready:
            return {}
        rows = [
            self._stored(number, seen_since(batch, False, birth).rows)
            for number, batch in enumerate(inputs)
        ]
        for own, feed in zip(rows, rings.feeds, strict=True):
            feed["rows"], feed["count"], feed["row"] = address(own), len(own), 0
            feed["row_words"] = own.shape[1]
        while ready:
            rings.reach(form.view for form in ready)
            probes = self._first_probes(ready)
            allowed = rings.frame.allowed = min(form.allowed for form in ready)
            run_forms(rings.frame, FirstProbe.at(probes), len(ready), codegen.always)
            spent = allowed - rings.frame.allowed
            ready = [form for form in ready if form.spend(spent, rings.frame.now)]
            if all(feed["row"] == feed["count"] for feed in rings.feeds):
                break
        rings.pass_time(bound)
        events = sum(map(len, rows))
        found = {port: form.output(events) for port, form in self._forms.items()}
        if rings.roomy:
            self.restore(self.snapshot())
        return found

    def _first_probes(self, forms: Sequence[JoinForm]) -> np.ndarray:
        """What forms look up for events of the first input, and then of the second."""
        if self._probes is None or self._probes[0] != forms:
            count = len(self._spec.inputs)
            found = [form.view.first_probe(driver) for driver in range(count) for form in forms]
            self._probes = (list(forms), np.array(found, np.int64))
        return self._probes[1]

    def _stored(self, number: int, rows: Rows) -> Rows:
        """The rows of an input with the columns that are held."""
        source, names = self._spec.inputs[number].layout, self._names[number]
        if names == source.names:
            return np.ascontiguousarray(rows)
        columns = [source.column(name) for name in names]
        return moved(rows, source, Layout(names), columns)

    # ---- state ----

    @property
    def instances(self) -> int:
        return 0 if self._rings is None else sum(self._rings.counts())

    @property
    def state_bytes(self) -> int:
        return 0 if self._rings is None else self._rings.nbytes

    @property
    def index_bytes(self) -> int:
        return sum(form.index_bytes for form in self._forms.values())

    def snapshot(self) -> State:
        """Of each input: its slots, and the columns in them; the stops of each form."""
        state: State = {f"stopped_{port}": form.stops for port, form in self._forms.items()}
        if self._rings is not None:
            nobody = np.full(128, -1, np.int64)
            for number, names in enumerate(self._names):
                saved = self._rings.saved(number, nobody, 0)
                state |= {f"{name}{number}": array for name, array in saved.items()}
                state[f"columns{number}"] = _words("\0".join(names))
        return state

    def restore(self, state: State) -> None:
        """Take up saved events, and nothing else; members are there already."""
        if self._rings is None or "marks0" not in state:
            return
        self._rings.forget()
        for number, names in enumerate(self._names):
            known = tuple(_text(state[f"columns{number}"]).split("\0"))
            rows = checks.table(state, f"rows{number}", Layout(known).width)
            own = {name: state[f"{name}{number}"] for name in ("marks", "cells", "sets")}
            own["rows"] = with_columns(rows, known, names)
            self._rings.take(number, own, 0, np.empty(0, np.int64))
        for port, form in self._forms.items():
            if f"stopped_{port}" in state:
                form.is_ready()
                form.take_stops(state[f"stopped_{port}"])

    def forget_codes(self) -> None:
        """Constants keep their codes, and rows are given back with new ones."""

    def describe(self) -> dict[str, Any]:
        forms = list(self._forms.values())
        if self._rings is None or not forms:
            return {"forms": 0, "nodes": 0, "inputs": [], "indexes": [], "sizes": [], "longest": []}
        sizes = [np.concatenate(own) for own in zip(*(f.windows for f in forms), strict=True)]
        return {
            "forms": len(forms),
            "nodes": sum(form.nodes.count for form in forms),
            "inputs": self._rings.describe(),
            "indexes": self._rings.ways(),
            "sizes": [len(np.unique(own)) for own in sizes],
            "longest": [int(own.max()) if len(own) else None for own in sizes],
        }

    def __del__(self) -> None:
        rings = getattr(self, "_rings", None)
        if rings is not None and not sys.is_finalizing():
            rings.release()


def _words(text: str) -> Words:
    """A text as saved state has it: a word for each byte."""
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64)


def _text(words: Words) -> str:
    checks.within(words, 0, 256, "bytes of names")
    try:
        return words.astype(np.uint8).tobytes().decode()
    except UnicodeDecodeError:
        raise damaged("the names of columns are no text") from None
