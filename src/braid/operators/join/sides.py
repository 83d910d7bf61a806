"""What a join needs of its inputs: columns, and what is computed of them to be equal."""

from __future__ import annotations

from typing import Any

from braid.algebra.expressions import Call, Expression
from braid.algebra.joins import Comparison, JoinParts, Side, in_names_of_join, plain_ref
from braid.algebra.relations import Join, place
from braid.algebra.types import BOOLEAN, Kind, kind_of
from braid.operators.join.spec import Equality
from braid.plan.planning import Items, plain_items
from braid.plan.predicates import Lifter


class Sides:
    """What a join needs of each input: columns as they are, and computed ones to be equal."""

    def __init__(self, join: Join, parts: JoinParts) -> None:
        self._schemas = [relation.schema for relation in join.inputs]
        self._needed: list[set[str]] = [set() for _ in join.inputs]
        self._computed: list[dict[Expression, str]] = [{} for _ in join.inputs]
        rest = [*parts.rest]
        found = []
        for comparison in (*parts.equalities, *parts.comparisons):
            equality = self._equality(comparison)
            if equality is None:
                rest.append(_as_call(comparison))
            else:
                found.append(equality)
        self.equalities = tuple(found)
        self.rest = tuple(rest)

    @property
    def tell_events_apart(self) -> bool:
        """Whether more is needed than what must be equal. If not, events of one key are alike, and
        a join of rows with weights has one combination where one of events has all of them."""
        return not self.equalities or any(map(self._tells_apart, range(len(self._needed))))

    @property
    def tell_all_apart(self) -> bool:
        """Whether that is so of every input. Where an input's rows are alike, whoever is told of all
        that goes is told it once of a row with a weight, and again and again of events."""
        return not self.equalities or all(map(self._tells_apart, range(len(self._needed))))

    def _tells_apart(self, number: int) -> bool:
        keys = {e.first_column for e in self.equalities if e.first == number}
        keys |= {e.second_column for e in self.equalities if e.second == number}
        return not self._needed[number] <= keys

    def need(self, number: int, name: str) -> None:
        self._needed[number].add(name)

    def _equality(self, comparison: Comparison) -> Equality | None:
        """An equality by hash, if the words of both sides are equal where the values are."""
        if comparison.function not in ("eq", "eq_null_safe"):
            return None
        types = [side.expression.type for side in (comparison.left, comparison.right)]
        kind = kind_of(types[0])
        if kind is not kind_of(types[1]) or kind in (Kind.OPAQUE, Kind.NULL):
            return None
        if kind is Kind.DECIMAL and types[0].scale != types[1].scale:
            return None
        left, right = (self._column(s) for s in (comparison.left, comparison.right))
        return Equality(
            comparison.left.input,
            left,
            comparison.right.input,
            right,
            floating=kind is Kind.FLOAT,
            null_safe=comparison.function == "eq_null_safe",
        )

    def _column(self, side: Side) -> str:
        plain = plain_ref(side.expression)
        if plain is not None:
            self.need(side.input, plain.name)
            return plain.name
        computed = self._computed[side.input]
        return computed.setdefault(side.expression, f"__e{len(computed)}")

    def netted(self, shown: frozenset[str]) -> tuple[tuple[str, ...], ...]:
        """Of each input the columns in which rows are equal that are equal in the columns of the
        join that are shown: these, and what must equal them."""
        equal = {place(name) for name in shown}
        pairs = [{(e.first, e.first_column), (e.second, e.second_column)} for e in self.equalities]
        for _ in pairs:
            equal |= {side for pair in pairs if pair & equal for side in pair}
        return tuple(
            tuple(
                name
                for name, e in self.items(number)
                if (number, name) in equal and kind_of(e.type) not in (Kind.OPAQUE, Kind.NULL)
            )
            for number in range(len(self._schemas))
        )

    @property
    def definition(self) -> tuple[Any, ...]:
        """What is computed for it, with the constants left out, and the columns of each input."""
        return tuple(
            (tuple(name for name, _ in self.items(number)), tuple(map(shape_of, computed)))
            for number, computed in enumerate(self._computed)
        )

    def items(self, number: int) -> Items:
        schema = self._schemas[number]
        names = tuple(n for n in schema.names if n in self._needed[number])
        computed = tuple((name, e) for e, name in self._computed[number].items())
        return (*plain_items(schema, names), *computed)


def _as_call(comparison: Comparison) -> Expression:
    sides = (comparison.left, comparison.right)
    args = tuple(in_names_of_join(side.expression, side.input) for side in sides)
    return Call(comparison.function, args, BOOLEAN)


def shape_of(expression: Expression) -> Expression:
    return Lifter().lift(expression)
