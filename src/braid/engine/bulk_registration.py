"""Bulk registration: admits queries of many templates m-op by m-op instead of one by one.

Many templates have few distinct steps: queries that test one of ten attributes in each of three
steps have a thousand templates, but only ten recipes. Admission costs time per recipe and hardly
any per member. Therefore recipes that differ only in *which* parameters of their template they use
are admitted together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from braid.algebra.expressions import Parameter
from braid.algebra.templates import Members
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin
from braid.operators.core.values import Values, Words
from braid.plan.predicates import Atom, Clause, Constant, Predicate
from braid.plan.routes import Bound, Data, DataKind, Recipe, Route

#: A template with at least this many queries is admitted separately.
MANY = 64

#: The parameters that a part of a recipe asks for, in order, and the places of these.
_Slots = dict[int, int]


class PendingQueries(NamedTuple):
    """Queries of one template that wait to be admitted, with their births."""

    route: Route
    members: Members
    births: Words | None


def can_defer(route: Route, members: Members) -> bool:
    """Whether queries can wait for bulk registration: they are few and publish no stream."""
    return (
        len(members) < MANY
        and all(stage.recipe.data is not None for stage in route.stages)
        and all(exit_.stream is None for exit_ in route.exits)
    )


class Forms:
    """What recipes have in common, whichever parameters they ask for.

    Templates that have a predicate in common have the same object: what is found out about one is
    known by that. So a form must not be slots for longer than the recipes live.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, recipe: Recipe) -> tuple[Hashable, tuple[int, ...]]:
        """The form of a recipe, and the parameters that it asks for, in order."""
        forms: list[Hashable] = []
        slots: list[int] = []
        for kind, value in recipe.data or ():
            if kind is DataKind.FIXED:
                forms.append(value)
                continue
            form, own = self._part(value, _FORMS[kind])
            forms.append(form)
            slots += own
        return tuple(forms), tuple(slots)

    def _part(
        self, part: Any, form_of: Callable[[Any, _Slots], Hashable]
    ) -> tuple[int, tuple[int, ...]]:
        known = self._known.get(id(part))
        if known is None:
            slots: _Slots = {}
            form = (form_of.__name__, form_of(part, slots))
            number = self._numbers.setdefault(form, len(self._numbers))
            known = self._known[id(part)] = (number, tuple(slots))
        return known


def _constant_form(constant: Constant | int | None, slots: _Slots) -> Hashable:
    """A parameter is identified by its position in its part: `=` has the same one twice."""
    if isinstance(constant, Parameter):
        return ("parameter", slots.setdefault(constant.index, len(slots)), constant.type)
    return constant


def _constants_form(constants: Sequence[Constant], slots: _Slots) -> Hashable:
    return tuple([_constant_form(c, slots) for c in constants])


def _bounds_form(bounds: Sequence[Bound], slots: _Slots) -> Hashable:
    return tuple([(_constant_form(b.constant, slots), b.strict) for b in bounds])


def _clause_form(clause: Clause, slots: _Slots) -> Hashable:
    return tuple(
        [
            (
                atom.kind,
                atom.key,
                _constant_form(atom.low, slots),
                _constant_form(atom.high, slots),
                atom.low_open,
                atom.high_open,
                _constants_form(atom.among, slots),
            )
            for atom in clause
        ]
    )


def _predicate_form(predicate: Predicate, slots: _Slots) -> Hashable:
    clauses = tuple([_clause_form(clause, slots) for clause in predicate.clauses])
    return clauses, predicate.residual, _constants_form(predicate.constants, slots)


_FORMS: dict[DataKind, Callable[[Any, _Slots], Hashable]] = {
    DataKind.PREDICATE: _predicate_form,
    DataKind.CLAUSE: _clause_form,
    DataKind.CONSTANTS: _constants_form,
    DataKind.BOUNDS: _bounds_form,
}

# ---- the common recipe ----


def renumbered(recipe: Recipe) -> Recipe:
    """The same recipe with its parameters numbered as `Forms.of` lists them."""
    numbers = _Numbers()
    return recipe.with_data([numbers.next_part().part(data) for data in recipe.data or ()])


class _Numbers:
    """New numbers of parameters: of each part in order, after those of the part before."""

    def __init__(self) -> None:
        self._first = 0
        self._slots: _Slots = {}

    def next_part(self) -> _Numbers:
        self._first += len(self._slots)
        self._slots = {}
        return self

    def part(self, data: Data) -> Any:
        match data.kind:
            case DataKind.PREDICATE:
                return self.predicate(data.value)
            case DataKind.CLAUSE:
                return self.clause(data.value)
            case DataKind.CONSTANTS:
                return self.constants(data.value)
            case DataKind.BOUNDS:
                return tuple([Bound(self.constant(b.constant), b.strict) for b in data.value])
            case DataKind.FIXED:
                return data.value

    def constant(self, constant: Any) -> Any:
        if not isinstance(constant, Parameter):
            return constant
        place = self._slots.setdefault(constant.index, len(self._slots))
        return Parameter(self._first + place, constant.type)

    def constants(self, constants: Sequence[Constant]) -> tuple[Constant, ...]:
        return tuple([self.constant(c) for c in constants])

    def clause(self, clause: Clause) -> Clause:
        return tuple(
            [
                Atom(
                    atom.kind,
                    atom.key,
                    self.constant(atom.low),
                    self.constant(atom.high),
                    atom.low_open,
                    atom.high_open,
                    self.constants(atom.among),
                )
                for atom in clause
            ]
        )

    def predicate(self, predicate: Predicate) -> Predicate:
        clauses = tuple([self.clause(clause) for clause in predicate.clauses])
        return Predicate(clauses, predicate.residual, self.constants(predicate.constants))


# ---- the members ----


def constants_of(parts: Sequence[tuple[Members, tuple[int, ...]]], values: Values) -> Constants:
    """The constants of some queries one after the other: of each those that it asks for."""
    ids = pa.concat_arrays([members.ids for members, _ in parts])
    columns = [
        pa.concat_arrays([members.values[slots[k]] for members, slots in parts])
        for k in range(len(parts[0][1]))
    ]
    return Constants(ids, columns, values)


def concatenated(origins: Sequence[Origin]) -> Origin:
    return Origin(
        np.concatenate([origin.numbers for origin in origins]),
        np.concatenate([origin.signatures for origin in origins]),
    )
