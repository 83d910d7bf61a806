"""Declared constraints that the data break: which, and the first event that did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.algebra.constraints import Constraint, ConstraintKind
from braid.operators.constraint_join.fields import Records
from braid.operators.constraint_join.kernels.records import (
    ASCENDS,
    BROKEN,
    CLUSTERS,
    DECLARED,
    DESCENDS,
    WAITS,
)
from braid.operators.constraint_join.kernels.watch import ENDLESS
from braid.operators.constraint_join.probes import ProbedStores
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.constraint_join.watch.report import Broken, Found, shown_value
from braid.operators.core.values import Values, Words
from braid.operators.join.probe_orders import Key

_KINDS = {
    ConstraintKind.ASCENDING: ASCENDS,
    ConstraintKind.DESCENDING: DESCENDS,
    ConstraintKind.CLUSTERED: CLUSTERS,
}


class Breaks:
    """The declared constraints that are broken, and which of these were reported.

    `what`: of each watch its kind, its input, and the column or the input that waits.
    """

    def __init__(
        self,
        spec: ConstraintJoinSpec,
        held: ProbedStores[Any],
        keys: Sequence[Key],
        watches: Records,
        found: Sequence[Found],
    ) -> None:
        self._spec, self._held, self._keys = spec, held, keys
        self._watches, self._found = watches, found
        self.keyed = [c for c in spec.declared if c.kind is ConstraintKind.KEY]
        #: Declared keys that are broken: the index that found it.
        self.keys: dict[str, int] = {}
        self._reported: set[str] = set()

    def names_of(self, index: int) -> tuple[str | None, set[str | None]]:
        """The stream that is looked up by an index, and the attributes of its key."""
        lookup = self._held.lookups[index]
        if lookup is None:
            return None, set()
        number, keys = lookup
        names = {self.attribute(number, self._keys[k].columns[number][0]) for k in keys}
        return self._spec.names[number][0], names

    def is_declared(self, index: int) -> bool:
        """Whether a key that is looked up was declared to be of one row, and is not broken."""
        stream, names = self.names_of(index)
        kept = [c for c in self.keyed if c.name not in self.keys]
        return any(c.stream == stream and set(c.attributes) <= names for c in kept)

    def attribute(self, number: int, column: int) -> str | None:
        """What a column of an input is called in the stream that it is of."""
        name = self._spec.inputs[number].layout.names[column]
        return dict(self._spec.names[number][1]).get(name)

    def says(self, constraint: Constraint, kind: int, input_: int, other: int) -> bool:
        """Whether a declared constraint is about what a watch looks at: its kind, its input, and the
        column or the input that waits."""
        names = self._spec.names
        if kind == WAITS:
            if constraint.kind is not ConstraintKind.REFERENCES:
                return False
            if (constraint.stream, constraint.target) != (names[other][0], names[input_][0]):
                return False
            common = [k for k in self._keys if k.columns[other] and k.columns[input_]]
            pairs = {
                (
                    self.attribute(other, key.columns[other][0]),
                    self.attribute(input_, key.columns[input_][0]),
                )
                for key in common
            }
            return pairs == set(
                zip(constraint.attributes, constraint.target_attributes, strict=True)
            )
        if _KINDS.get(constraint.kind) != kind or constraint.stream != names[input_][0]:
            return False
        return constraint.attributes == (self.attribute(input_, other),)

    def note_keys(self) -> bool:
        """Note the declared keys that two rows have; whether there is a new one."""
        new = False
        for constraint in self.keyed:
            for index in self._indexes_of(constraint):
                known = constraint.name in self.keys
                if not known and self._held.indexes["duplicates"][index]:
                    self.keys[constraint.name] = index
                    new = True
        return new

    def uses(self, name: str) -> bool:
        """Whether rows leave, or have left, because of a declared constraint."""
        watched = any(found.name == name for found in self._found)
        return watched or any(name == c.name for c in self.keyed if self._indexes_of(c))

    def _indexes_of(self, constraint: Constraint) -> list[int]:
        """The indexes by which an input is looked up whose key was declared."""
        names = [self.names_of(index) for index in range(len(self._held.lookups))]
        return [
            index
            for index, (stream, attributes) in enumerate(names)
            if constraint.stream == stream and set(constraint.attributes) <= attributes
        ]

    def give_up(self, broken: Broken) -> bool:
        """Do not use a constraint that was seen to be broken at its streams; whether a key is none
        because of it."""
        self._reported.add(broken.constraint)
        for number, found in enumerate(self._found):
            watch = self._watches[number]
            if found.name == broken.constraint and watch["declared"] == DECLARED:
                watch["declared"], watch["counted"] = BROKEN, 0
                watch["k"] = ENDLESS
                watch["breaks"] = max(watch["breaks"], 1)
                watch["breaker"], watch["broken_at"] = broken.event, broken.at
        for constraint in self.keyed:
            indexes = self._indexes_of(constraint)
            if (
                constraint.name == broken.constraint
                and indexes
                and constraint.name not in self.keys
            ):
                self.keys[constraint.name] = indexes[0]
                if not self._held.indexes["duplicates"][indexes[0]]:
                    self._held.indexes["duplicate_time"][indexes[0]] = broken.at
                return True
        return False

    def news(self, values: Values) -> list[Broken]:
        """The broken constraints that were not reported yet."""
        found = [
            self._of_watch(number, values)
            for number in np.flatnonzero(self._watches["declared"] == BROKEN).tolist()
            if self._found[number].name not in self._reported
            # How long rows wait is overestimated by events of their own instant: the watch at the streams
            # (`declared_logic.py`) reports that.
            if self._watches["kind"][number] != WAITS
        ]
        for constraint in self.keyed:
            if constraint.name in self.keys and constraint.name not in self._reported:
                found.append(self._of_key(constraint, values))
        self._reported |= {broken.constraint for broken in found}
        return found

    def _of_watch(self, number: int, values: Values) -> Broken:
        watch, found = self._watches[number], self._found[number]
        event, at, value, distance, column, input_ = watch[
            ["breaker", "broken_at", "broken_value", "broken_by", "example", "input"]
        ].tolist()
        stream, name = str(self._spec.names[input_][0]), str(self.attribute(input_, column))
        shown = {name: self._shown(input_, column, value, values)}
        (constraint,) = (
            c for c in self._spec.declared if (c.name, c.describe()) == (found.name, found.declared)
        )
        return Broken.of(constraint, stream, (event, at), shown, distance)

    def _of_key(self, constraint: Constraint, values: Values) -> Broken:
        index = self.keys[constraint.name]
        lookup = self._held.lookups[index]
        assert lookup is not None
        number, keys = lookup
        column = self._keys[keys[0]].columns[number][0]
        words = ["duplicate_number", "duplicate_time", "duplicate_value"]
        event, at, value = self._held.indexes[index][words].tolist()
        shown = {str(self.attribute(number, column)): self._shown(number, column, value, values)}
        return Broken.of(constraint, constraint.stream, (event, at), shown, None)

    def _shown(self, number: int, column: int, word: int, values: Values) -> str:
        return shown_value(word, self._spec.inputs[number].schema.attributes[column].type, values)

    # ---- state ----

    def saved(self) -> Words:
        return np.array([self.keys.get(c.name, -1) for c in self.keyed], np.int64)

    def take(self, saved: Words) -> None:
        """Broken constraints were reported. Constraints that were declared since then aren't in it."""
        for constraint, index in zip(self.keyed, saved.tolist(), strict=False):
            if index >= 0:
                self.keys[constraint.name] = index
        watched = self._watches["declared"] == BROKEN
        reported = {str(self._found[number].name) for number in np.flatnonzero(watched).tolist()}
        self._reported = reported | set(self.keys)
