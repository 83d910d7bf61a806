"""Predicates as data: tests of one attribute against a constant, in disjunctive normal form.

What a static predicate asks of an event is data and not code wherever it can be: queries that
ask different attributes for different constants then have the same shape, and an index finds
those that an event satisfies. Whatever is no such test stays as a *residual* expression, which
is compiled once for all queries that differ in its constants only.

    Name = 'IBM' AND (Price > 10 OR Volume BETWEEN 5 AND 9) AND Price * 2 < Volume
    -> clauses   Name = 'IBM' AND Price > 10;  Name = 'IBM' AND 5 <= Volume <= 9
       residual  Price * :0 < Volume   with the constant 2

Three-valued logic: negations are pushed down to the tests, where NOT (a < 5) is a >= 5; both
are unknown for NULL, so a clause holds exactly where the predicate is true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

import pyarrow as pa

from braid.algebra.expressions import (
    TRUE,
    Call,
    Duration,
    Expression,
    Literal,
    Parameter,
    Ref,
    Source,
    conjunction,
    conjuncts,
    is_true,
    refs,
    transform,
    walk,
)
from braid.algebra.types import BOOLEAN, Kind, kind_of
from braid.plan.normal_form import MIRRORED, NEGATED, is_liftable, normal

#: A constant of a query: the same for all of a template, or a parameter of it.
Constant = Literal | Parameter

#: More clauses than this are not worth it: what is left becomes residual.
MAX_CLAUSES = 16

#: Tests of a text against a pattern.
TEXT_TESTS = frozenset({"contains", "starts_with", "ends_with", "like"})

_COMPARISONS = frozenset({"lt", "gt", "le", "ge", "eq", "ne"})

#: How the key of a column is made from its word.
WORD, FLOAT, NUMBER_AS_FLOAT = "word", "float", "number as float"


@dataclass(frozen=True)
class KeyColumn:
    """An attribute as tests see it; without a name it is DUR."""

    name: str | None
    mode: str


@dataclass(frozen=True)
class Atom:
    """One test: `kind` is between, ne, in, not in, null, not null, or a text function.

    `between` has a lower and an upper constant, each of which may be missing or excluded.
    """

    kind: str
    key: KeyColumn
    low: Constant | None = None
    high: Constant | None = None
    low_open: bool = False
    high_open: bool = False
    among: tuple[Constant, ...] = ()

    @property
    def is_equality(self) -> bool:
        """Whether it asks for one value of an attribute."""
        if self.kind != "between" or self.key.name is None or self.low is None:
            return False
        return self.low == self.high and not (self.low_open or self.high_open)


Clause = tuple[Atom, ...]


@dataclass(frozen=True)
class Predicate:
    """A predicate of a query: some clause holds, and the residual with its constants does."""

    clauses: tuple[Clause, ...]
    residual: Expression
    constants: tuple[Constant, ...]

    @property
    def trivial(self) -> bool:
        return self.clauses == ((),) and is_true(self.residual)


ALWAYS = Predicate(((),), TRUE, ())


@dataclass
class Lifter:
    """Takes the constants out of expressions and numbers them."""

    constants: list[Constant] = field(default_factory=list)

    def lift(self, expression: Expression) -> Expression:
        def change(part: Expression) -> Expression | None:
            if isinstance(part, Parameter) or (isinstance(part, Literal) and is_liftable(part)):
                self.constants.append(part)
                return Parameter(len(self.constants) - 1, part.type)
            return None

        return transform(expression, change)


@lru_cache(1 << 16)
def normalise(predicate: Expression, source: Source = Source.INPUT) -> Predicate:
    """The clauses of the parts that are tests of `source`'s attributes, the rest as residual."""
    clauses: tuple[Clause, ...] = ((),)
    rest: list[Expression] = []
    for part in conjuncts(normal(predicate)):
        found = _disjunction(part, source, negated=False)
        if found is None or len(found) * len(clauses) > MAX_CLAUSES:
            rest.append(part)
        else:
            clauses = tuple((*a, *b) for a, b in product(clauses, found))
    lifter = Lifter()
    residual = lifter.lift(conjunction(tuple(rest)))
    return Predicate(
        tuple(_ordered(clause) for clause in clauses), residual, tuple(lifter.constants)
    )


def is_static(expression: Expression, source: Source) -> bool:
    """Whether an expression looks at one event only (and at constants)."""
    if any(isinstance(e, Duration) for e in walk(expression)):
        return False
    return all(ref.source is source for ref in refs(expression))


def tests(part: Expression, source: Source) -> Clause | None:
    """The tests that a conjunct is, if it is a conjunction of tests."""
    found = _disjunction(part, source, negated=False)
    return found[0] if found is not None and len(found) == 1 else None


def _ordered(clause: Clause) -> Clause:
    """One order for equal conjunctions, whatever order they were written in."""
    merged = _merged(clause)
    return tuple(sorted(merged, key=lambda a: (a.key.name or "", a.key.mode, a.kind, repr(a))))


def _merged(clause: Clause) -> list[Atom]:
    """`a > 1 AND a < 5` as one interval."""
    open_: dict[KeyColumn, Atom] = {}
    rest: list[Atom] = []
    for atom in clause:
        known = open_.get(atom.key)
        if atom.kind != "between" or (atom.low is not None and atom.high is not None):
            rest.append(atom)
        elif known is None:
            open_[atom.key] = atom
        elif known.low is None and atom.low is not None:
            open_[atom.key] = Atom(
                "between", atom.key, atom.low, known.high, atom.low_open, known.high_open
            )
        elif known.high is None and atom.high is not None:
            open_[atom.key] = Atom(
                "between", atom.key, known.low, atom.high, known.low_open, atom.high_open
            )
        else:
            rest.append(atom)
    return [*open_.values(), *rest]


def _disjunction(part: Expression, source: Source, *, negated: bool) -> list[Clause] | None:
    """Clauses one of which must hold, or None if something in it is no test."""
    match part:
        case Literal(value=value):
            holds = value is not None and bool(value) is not negated
            return [()] if holds else []
        case Call(function="not", args=(inner,)):
            return _disjunction(inner, source, negated=not negated)
        case Call(function="and" | "or" as function, args=args):
            sides = [_disjunction(arg, source, negated=negated) for arg in args]
            found = [side for side in sides if side is not None]
            if len(found) < len(sides):
                return None
            if (function == "or") is not negated:
                return [clause for side in found for clause in side]
            if math.prod(map(len, found)) > MAX_CLAUSES:
                return None
            return [tuple(a for clause in choice for a in clause) for choice in product(*found)]
        case Ref() if part.type == BOOLEAN and part.source is source:
            value = Literal(not negated, BOOLEAN)
            return [(Atom("between", KeyColumn(part.name, WORD), value, value),)]
        case Call():
            atom = _atom(part, source, negated=negated)
            return None if atom is None else [(atom,)]
    return None


def _atom(call: Call, source: Source, *, negated: bool) -> Atom | None:
    if call.function == "is_null":
        key = _key(call.args[0], source)
        # A cast may fail and be NULL where the column is not: only the column itself will do.
        if key is None or not isinstance(call.args[0], Ref | Duration):
            return None
        return Atom("not null" if negated else "null", key)
    if call.function == "in":
        return _membership(call, source, negated=negated)
    if call.function in TEXT_TESTS:
        key, pattern = _key(call.args[0], source), _constant(call.args[1])
        if key is None or pattern is None or negated:
            return None
        return Atom(call.function, key, pattern)
    if call.function in _COMPARISONS:
        return _comparison(call, source, negated=negated)
    return None


def _comparison(call: Call, source: Source, *, negated: bool) -> Atom | None:
    left, right = call.args
    function = call.function
    if _constant(left) is not None:
        left, right, function = right, left, MIRRORED[function]
    key, constant = _key(left, source), _constant(right)
    if key is None or constant is None or not _comparable(left.type, constant.type):
        return None
    if negated:
        function = NEGATED[function]
    if kind_of(constant.type) is Kind.STRING and function not in ("eq", "ne"):
        return None  # codes of strings have no order
    match function:
        case "eq":
            return Atom("between", key, constant, constant)
        case "ne":
            return Atom("ne", key, constant)
        case "lt" | "le":
            return Atom("between", key, high=constant, high_open=function == "lt")
        case _:
            return Atom("between", key, constant, low_open=function == "gt")


def _membership(call: Call, source: Source, *, negated: bool) -> Atom | None:
    key = _key(call.args[0], source)
    constants = [_constant(arg) for arg in call.args[1:]]
    if key is None or any(c is None for c in constants):
        return None  # a NULL in the list makes what is not in it unknown
    return Atom("not in" if negated else "in", key, among=tuple(c for c in constants if c))


def _comparable(a: pa.DataType, b: pa.DataType) -> bool:
    kinds = (kind_of(a), kind_of(b))
    if kinds[0] is not kinds[1]:
        return False
    return kinds[0] is not Kind.DECIMAL or a.scale == b.scale


def _constant(expression: Expression) -> Constant | None:
    if isinstance(expression, Parameter):
        return expression
    if isinstance(expression, Literal) and expression.value is not None:
        return None if _at_the_edge(expression.value) else expression
    return None


def _at_the_edge(value: Any) -> bool:
    """The lowest integers, which share a key: left to compiled code."""
    return isinstance(value, int) and not -(2**62) < value < 2**62


def _key(expression: Expression, source: Source) -> KeyColumn | None:
    """An attribute, seen through casts that keep its order and cannot fail."""
    match expression:
        case Duration():
            return KeyColumn(None, WORD)
        case Ref(source=of, name=name) if of is source:
            kind = kind_of(expression.type)
            if kind in (Kind.OPAQUE, Kind.NULL):
                return None
            return KeyColumn(name, FLOAT if kind is Kind.FLOAT else WORD)
        case Call(function="cast", args=(inner,)):
            key = _key(inner, source)
            if key is None or isinstance(inner, Duration):
                return None
            kinds = (kind_of(inner.type), kind_of(expression.type))
            if kinds == (Kind.INTEGER, Kind.INTEGER) and key.mode == WORD:
                return key if inner.type.bit_width <= expression.type.bit_width else None
            if kinds == (Kind.FLOAT, Kind.FLOAT):
                return key if inner.type.bit_width <= expression.type.bit_width else None
            if kinds == (Kind.INTEGER, Kind.FLOAT) and expression.type.bit_width == 64:
                return KeyColumn(key.name, NUMBER_AS_FLOAT)
    return None
