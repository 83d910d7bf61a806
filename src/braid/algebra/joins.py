"""The predicate of a join, taken apart by which inputs each conjunct looks at.

A.x > 5 AND A.k = B.k AND B.t < C.t AND A.x + B.x = C.x
-> selections   0: x > 5
   equalities   0.k = 1.k
   comparisons  1.t < 2.t
   rest         0.x + 1.x = 2.x
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from braid.algebra.expressions import Call, Expression, Ref, conjuncts, refs, transform
from braid.algebra.relations import Join, column, place
from braid.algebra.types import Kind, kind_of

#: A comparison said from the other side.
MIRRORED = {
    "eq": "eq",
    "eq_null_safe": "eq_null_safe",
    "ne": "ne",
    "lt": "gt",
    "le": "ge",
    "gt": "lt",
    "ge": "le",
}
_EQUALITIES = ("eq", "eq_null_safe")


@dataclass(frozen=True)
class Side:
    """An expression over one input of a join, in that input's own names."""

    input: int
    expression: Expression


@dataclass(frozen=True)
class Comparison:
    """`left function right` of two inputs, the one with the smaller number on the left."""

    function: str
    left: Side
    right: Side

    @property
    def inputs(self) -> tuple[int, int]:
        return (self.left.input, self.right.input)


@dataclass(frozen=True)
class JoinParts:
    """All conjuncts of a join's predicate, each in one place; a row is kept if all are true.

    `selections` has, for each input, the conjuncts over it alone, in its own names. `equalities`
    are `eq` (NULL joins nothing) and `eq_null_safe` (NULL joins NULL) of two inputs, `comparisons`
    the other comparisons of two inputs. `rest` is in the names of the join: what looks at more
    inputs, at two in another way, or at none.
    """

    selections: tuple[tuple[Expression, ...], ...]
    equalities: tuple[Comparison, ...]
    comparisons: tuple[Comparison, ...]
    rest: tuple[Expression, ...]

    def between(self, first: int, second: int) -> Iterator[tuple[Side, Side]]:
        """The equalities of two inputs: the side of `first`, and that of `second`."""
        for equality in self.equalities:
            if equality.inputs == (first, second):
                yield equality.left, equality.right
            elif equality.inputs == (second, first):
                yield equality.right, equality.left

    def connected(self) -> frozenset[frozenset[int]]:
        """The inputs in groups that equalities link, directly or through others."""
        groups: list[set[int]] = [{number} for number in range(len(self.selections))]
        for equality in self.equalities:
            touched = [g for g in groups if not g.isdisjoint(equality.inputs)]
            groups = [g for g in groups if g not in touched] + [set().union(*touched)]
        return frozenset(map(frozenset, groups))


@lru_cache(maxsize=4096)
def parts_of(join: Join) -> JoinParts:
    selections: list[list[Expression]] = [[] for _ in join.inputs]
    equalities: list[Comparison] = []
    comparisons: list[Comparison] = []
    rest: list[Expression] = []
    for part in conjuncts(join.predicate):
        used = inputs_of(part)
        comparison = _comparison(part)
        if len(used) == 1:
            (number,) = used
            selections[number].append(in_own_names(part))
        elif comparison is None:
            rest.append(part)
        elif comparison.function in _EQUALITIES:
            equalities.append(comparison)
        else:
            comparisons.append(comparison)
    return JoinParts(
        tuple(map(tuple, selections)), tuple(equalities), tuple(comparisons), tuple(rest)
    )


def inputs_of(expression: Expression) -> frozenset[int]:
    """The numbers of the inputs that an expression over a join's row looks at."""
    return frozenset(place(ref.name)[0] for ref in refs(expression))


def in_own_names(expression: Expression) -> Expression:
    """An expression that looks at one input of a join, said over the rows of that input."""

    def change(part: Expression) -> Expression | None:
        return Ref(part.source, place(part.name)[1], part.type) if isinstance(part, Ref) else None

    return transform(expression, change)


def in_names_of_join(expression: Expression, number: int) -> Expression:
    """The inverse of `in_own_names`."""

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Ref):
            return None
        return Ref(part.source, column(number, part.name), part.type)

    return transform(expression, change)


def _comparison(part: Expression) -> Comparison | None:
    if not isinstance(part, Call) or part.function not in MIRRORED:
        return None
    sides = []
    for arg in part.args:
        used = inputs_of(arg)
        if len(used) != 1:
            return None
        (number,) = used
        sides.append(Side(number, in_own_names(arg)))
    left, right = sides
    if left.input == right.input:
        return None
    if left.input < right.input:
        return Comparison(part.function, left, right)
    return Comparison(MIRRORED[part.function], right, left)


def plain_ref(expression: Expression) -> Ref | None:
    """The attribute that an expression is a copy of, through casts that keep equality and hash."""
    while isinstance(expression, Call) and expression.function == "cast":
        inner = expression.args[0]
        if not _widens(inner.type, expression.type):
            return None
        expression = inner
    return expression if isinstance(expression, Ref) else None


def _widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    for kind in (Kind.INTEGER, Kind.FLOAT):
        if kind_of(narrow) is kind and kind_of(wide) is kind:
            return bool(wide.bit_width >= narrow.bit_width)
    return bool(narrow == wide)
