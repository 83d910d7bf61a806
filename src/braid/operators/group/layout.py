"""The layout of a group's slot for the aggregates of a query, as tables that the kernels read.

Aggregates of one column share a state: a sum has the number of its values, and min, max and
count(DISTINCT) use the same multiset.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from braid.algebra.expressions import Ref
from braid.algebra.nodes import Aggregate
from braid.algebra.types import Kind, kind_of
from braid.jit import records
from braid.operators.core.values import Words
from braid.operators.group.kernels import layout as at
from braid.operators.group.spec import GroupSpec
from braid.plan.deltas import WEIGHT
from braid.plan.layout import Layout

#: Words of a state of each kind.
_SIZES = {
    at.COUNTED: at.Counted.stride // 8,
    at.INTEGERS: at.IntegerSum.stride // 8,
    at.REALS: at.FloatSum.stride // 8,
    at.MULTISET: at.Multiset.stride // 8,
}
_SUMS = {
    Kind.INTEGER: (at.INTEGERS, at.INTEGER_SUM, at.INTEGER_MEAN),
    Kind.DECIMAL: (at.INTEGERS, at.DECIMAL_SUM, at.DECIMAL_MEAN),
    Kind.FLOAT: (at.REALS, at.REAL_SUM, at.REAL_MEAN),
}


def keys_of(spec: GroupSpec) -> tuple[str, ...]:
    """The columns by whose values rows are told apart."""
    if spec.distinct:
        return tuple(a.name for a in spec.input.schema if a.name != WEIGHT)
    return spec.keys


class GroupLayout:
    """The words of a slot, and the tables of states and aggregates."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.keys = keys_of(spec)
        self.input: Layout = spec.input.layout
        self.output: Layout = spec.output.layout
        self.key_words = len(self.keys) + (len(self.keys) + 63) // 64
        self.image = at.Slot.word("key") + self.key_words
        self.first_state = self.image + self.output.masks + len(spec.aggregates)
        self._modes: dict[tuple[int, int], int] = {}
        asked = [self._asked(aggregate) for aggregate in spec.aggregates]
        self.multisets = [key for key in self._modes if key[0] == at.MULTISET]
        self._places, self.width = self._placed()
        self.states = self._state_table()
        self.aggregates = np.zeros(len(asked), at.AggregateDescriptor.dtype)
        for row, (kind, state, unit) in zip(self.aggregates, asked, strict=True):
            row["kind"], row["unit"] = kind, unit
            if state is not None:
                row["place"], row["mode"] = self._places[state], self._modes[state]
        schema = spec.input.schema
        self._columns = np.array([self.input.column(k) for k in self.keys], np.int64)
        self._floats = np.array(
            [kind_of(schema.type_of(k)) is Kind.FLOAT for k in self.keys], np.int64
        )
        self._scratch = np.zeros(self.output.masks + len(asked) + 1, np.int64)
        #: The numbers of the states of multisets.
        self.multiset_states: Words = np.flatnonzero(self.states["kind"] == at.MULTISET)

    # ---- aggregates and their states ----

    def _asked(self, aggregate: Aggregate) -> tuple[int, tuple[int, int] | None, int]:
        """Kind, state and unit of an aggregate; its state is known from now on."""
        if not aggregate.args:
            assert aggregate.function == "count"
            return at.ROWS_COUNTED, None, 1
        (argument,) = aggregate.args
        assert isinstance(argument, Ref)
        column, kind = self.input.column(argument.name), kind_of(argument.type)
        match aggregate.function:
            case "count" if aggregate.distinct:
                return at.DIFFERENT_COUNTED, self._state(at.MULTISET, column, _mode(kind)), 1
            case "count":
                return at.VALUES_COUNTED, self._counted(column), 1
            case "min":
                mode = _mode(kind) | at.LOW
                return at.LEAST, self._state(at.MULTISET, column, mode), 1
            case "max":
                mode = _mode(kind) | at.HIGH
                return at.GREATEST, self._state(at.MULTISET, column, mode), 1
            case "sum" | "avg":
                assert not aggregate.distinct, "the language has no sum of different values"
                held, total, mean = _SUMS[kind]
                unit = 10**argument.type.scale if kind is Kind.DECIMAL else 1
                asked = total if aggregate.function == "sum" else mean
                return asked, self._state(held, column, 0), unit
        raise AssertionError(f"{aggregate.function} is no aggregate of GROUP BY")

    def _counted(self, column: int) -> tuple[int, int]:
        """Whatever counts the values of a column: a sum of it, if one is asked anyway."""
        for other in self.spec.aggregates:
            if other.function in ("sum", "avg") and isinstance(ref := other.args[0], Ref):
                if self.input.column(ref.name) == column:
                    return self._state(_SUMS[kind_of(ref.type)][0], column, 0)
        return self._state(at.COUNTED, column, 0)

    def _state(self, kind: int, column: int, mode: int) -> tuple[int, int]:
        key = (kind, column)
        self._modes[key] = self._modes.get(key, 0) | mode
        return key

    def _placed(self) -> tuple[dict[tuple[int, int], int], int]:
        """The first word of each state in a slot; how many words a slot has."""
        places, used = {}, self.first_state
        for key in self._modes:
            places[key] = used
            used += _SIZES[key[0]]
        return places, used

    def _state_table(self) -> np.ndarray:
        table = np.zeros(len(self._modes), at.StateDescriptor.dtype)
        for row, (key, mode) in zip(table, self._modes.items(), strict=True):
            row["kind"], row["column"] = key
            row["place"], row["mode"] = self._places[key], mode
            row["multiset"] = self.multisets.index(key) if key in self.multisets else -1
        return table

    # ---- for the kernels ----

    def frame(self) -> Words:
        """A frame with everything that does not move."""
        words = np.zeros(at.Frame.stride // 8, np.int64)
        frame = at.Frame.at(words)
        frame.keys, frame.key_floats = (
            records.Words.at(self._columns),
            records.Words.at(self._floats),
        )
        frame.key_count, frame.key_words = len(self.keys), self.key_words
        frame.in_base, frame.in_weight = self.input.base, self.input.word(WEIGHT)
        frame.out_base, frame.out_width = self.output.base, self.output.width
        frame.out_masks, frame.image_word = self.output.masks, self.image
        frame.aggregates = at.AggregateDescriptor.at(self.aggregates)
        frame.aggregate_count = len(self.aggregates)
        frame.states, frame.state_count = at.StateDescriptor.at(self.states), len(self.states)
        frame.slot_words = self.width
        frame.always = not self.keys and not self.spec.distinct
        frame.checked = bool((self.states["kind"] == at.INTEGERS).any())
        frame.multisets = len(self.multisets)
        frame.scratch = records.Words.at(self._scratch)
        return words

    @property
    def reals(self) -> list[int]:
        """The first word in a slot of each sum of floats."""
        return self.states["place"][self.states["kind"] == at.REALS].tolist()

    @property
    def multiset_words(self) -> list[int]:
        """The first word in a slot of each multiset."""
        return self.states["place"][self.multiset_states].tolist()

    @property
    def texts(self) -> list[tuple[int, int]]:
        """Texts in a slot: the word, and the column of the output whose NULLs are its own."""
        columns = [a for a in self.spec.output.schema if a.name != WEIGHT]
        keys, found = len(self.keys), []
        for column, attribute in enumerate(columns):
            if kind_of(attribute.type) is Kind.STRING:
                word = at.Slot.word("key") + self.key_words - keys + column
                if column >= keys:
                    word = self.image + self.output.masks + column - keys
                found.append((word, column))
        return found

    @property
    def text_multisets(self) -> list[int]:
        """The numbers of the multisets of texts."""
        return self.states["multiset"][(self.states["mode"] & at.TEXTS) != 0].tolist()

    @property
    def nbytes(self) -> int:
        return self.states.nbytes + self.aggregates.nbytes + self._scratch.nbytes


def _mode(kind: Kind) -> int:
    """How values are told apart and ordered."""
    return {Kind.FLOAT: at.FLOATS, Kind.STRING: at.TEXTS}.get(kind, 0)


def text_layout(layout: GroupLayout) -> tuple[Layout, tuple[pa.DataType, ...]]:
    """The rows in which texts are shown to whoever rewrites their codes: those of the slots, then
    a value of a multiset."""
    names = (*(f"text_{k}" for k in range(len(layout.texts))), "value")
    return Layout(names), (pa.string(),) * len(names)
