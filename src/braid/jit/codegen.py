"""The one code generator: predicates and writers, from checked expressions to functions for kernels.

A program is built from the bound syntax tree only. Every literal of the query is lifted into a
parameter array, so queries that differ in constants only have the same program, and so one
function. Compiled, a function is machine code that LLVM makes of it (`llvm_code.py`). With the
compiler off it is Python (`python_code.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braid.algebra.expressions import (
    TRUE,
    Call,
    Duration,
    Expression,
    Literal,
    Ref,
    Source,
    conjuncts,
    walk,
)
from braid.algebra.expressions import Parameter as LiftedParameter
from braid.algebra.types import Kind, kind_of
from braid.jit import llvm_code, python_code
from braid.jit.cast_rules import cast
from braid.jit.program import (
    EVENT,
    INSTANCE,
    OUTPUT,
    PARAMETERS,
    Builder,
    Code,
    Operand,
    Program,
    Variable,
    zero,
)
from braid.jit.runtime import COMPILED, float_word
from braid.jit.scalar_rules import RULES
from braid.plan.layout import END, MASK, START, Layout


@dataclass(frozen=True)
class Place:
    """Where references of one source are found: `row` is `i` (instance) or `e` (event)."""

    row: str
    layout: Layout
    prefix: str = ""


@dataclass(frozen=True)
class Parameter:
    """A lifted literal: a word, or a string that becomes a code of the intern table."""

    value: int | str


@dataclass(frozen=True)
class Function:
    """The function of a program, as kernels take it, and the parameters of one use of it."""

    program: Program
    compiled: Any
    parameters: tuple[Parameter, ...]

    @property
    def source(self) -> str:
        """The text that the function is made from, for debugging."""
        if COMPILED:
            return llvm_code.definition(self.program, "generated")
        return python_code.definition(self.program)


class _Body(Builder):
    """The instructions of one function, which finds values in rows and in its parameters."""

    def __init__(self, places: Mapping[Source, Place], first_parameter: int) -> None:
        super().__init__()
        self.places = places
        self._first = first_parameter
        self.parameters: list[Parameter] = []
        self._codes: dict[Expression, Code] = {}

    def function(self, *, writes: bool) -> Function:
        program = Program(writes, tuple(self.instructions))
        compiled = llvm_code.native(program) if COMPILED else python_code.interpreted(program)
        return Function(program, compiled, tuple(self.parameters))

    def code(self, expression: Expression) -> Code:
        if expression not in self._codes:
            self._codes[expression] = self._generate(expression)
        return self._codes[expression]

    def _generate(self, expression: Expression) -> Code:
        match expression:
            case Literal():
                return self._literal(expression)
            case LiftedParameter():
                kind = kind_of(expression.type)
                return Code(False, self._parameter(expression.index, kind), kind)
            case Ref():
                return self._reference(expression)
            case Duration():
                start = INSTANCE if Source.FIRST in self.places else EVENT
                first, last = self.op("load_int", start, START), self.op("load_int", EVENT, END)
                return Code(False, self.op("sub_i", last, first), kind_of(expression.type))
            case Call(function="cast"):
                return cast(expression, [self.code(a) for a in expression.args], self)
            case Call():
                rule = RULES[expression.function]
                return rule(expression, [self.code(a) for a in expression.args], self)

    def _literal(self, literal: Literal) -> Code:
        kind = kind_of(literal.type)
        value = literal.value
        if value is None:
            return Code(True, zero(kind), kind)
        match kind:
            case Kind.BOOLEAN:
                return Code(False, bool(value), kind)
            case Kind.FLOAT:
                return self._lifted(float_word(float(value)), kind)
            case Kind.STRING:
                return self._lifted(str(value), kind)
            case Kind.DECIMAL:
                return self._lifted(int(value.scaleb(literal.type.scale)), kind)
            case _:
                return self._lifted(int(value), kind)

    def _lifted(self, value: int | str, kind: Kind) -> Code:
        self.parameters.append(Parameter(value))
        return Code(False, self._parameter(len(self.parameters) - 1, kind), kind)

    def _parameter(self, index: int, kind: Kind) -> Operand:
        return self._word(PARAMETERS, self._first + index, kind)

    def _word(self, row: Variable, word: int, kind: Kind) -> Operand:
        if kind is Kind.FLOAT:
            return self.op("load_float", row, word)
        found = self.op("load_int", row, word)
        return self.negated(self.op("eq_i", found, 0)) if kind is Kind.BOOLEAN else found

    def _reference(self, ref: Ref) -> Code:
        place = self.places[ref.source]
        column, kind = place.layout.column(place.prefix + ref.name), kind_of(ref.type)
        row = Variable(place.row)
        mask = self.op("load_int", row, MASK + column // 64)
        null = self.op("bit", mask, column % 64)
        return Code(null, self._word(row, place.layout.base + column, kind), kind)


def predicate(
    expression: Expression, places: Mapping[Source, Place], first_parameter: int = 0
) -> Function:
    """A function that says whether a predicate is true (neither false nor unknown).

    Conjuncts are tested one after the other, the cheap ones first. `first_parameter`: where
    this function's parameters start in an array that several functions share.
    """
    body = _Body(places, first_parameter)
    for part in sorted(conjuncts(expression), key=_cost):
        code = body.code(part)
        body.refuse(code.null)
        body.refuse(body.negated(code.value))
    return body.function(writes=False)


def writer(
    items: Sequence[tuple[str, Expression]],
    layout: Layout,
    places: Mapping[Source, Place],
    first_parameter: int = 0,
) -> Function:
    """A function that computes columns of an output row, all of them before it writes any."""
    body = _Body(places, first_parameter)
    results = [(layout.column(name), body.code(expression)) for name, expression in items]
    words = [(column, *_stored(body, code)) for column, code in results]
    masks = [
        (mask, _mask(body, mask, [(c, code) for c, code in results if c // 64 == mask]))
        for mask in sorted({column // 64 for column, _ in results})
    ]
    for column, store, value in words:
        body.store(store, layout.base + column, value)
    for mask, value in masks:
        body.store("store_int", MASK + mask, value)
    return body.function(writes=True)


def _stored(body: _Body, code: Code) -> tuple[str, Operand]:
    """How a value is stored, and the value."""
    if code.kind is Kind.FLOAT:
        return "store_float", code.value
    if code.kind is Kind.BOOLEAN:
        holds = body.all_of(body.negated(code.null), code.value)
        return "store_int", body.op("bool_to_int", holds)
    return "store_int", code.value


def _mask(body: _Body, mask: int, results: list[tuple[int, Code]]) -> Operand:
    """A word of NULL bits: those of the written columns are new, the others stay."""
    kept = ~sum(1 << (column % 64) for column, _ in results)
    value: Operand = body.op("and_i", body.op("load_int", OUTPUT, MASK + mask), _signed(kept))
    for column, code in results:
        bit = body.integer(code.null, _signed(1 << (column % 64)), 0)
        value = value if bit == 0 else body.op("or_i", value, bit)
    return value


def _signed(word: int) -> int:
    """The signed number of the low 64 bits."""
    return (word + 2**63) % 2**64 - 2**63


def _cost(expression: Expression) -> int:
    """Rough order of work: words first, anything that walks over bytes last."""
    slow = {"contains", "like", "starts_with", "ends_with", "length", "pow", "exp"}
    calls = [e for e in walk(expression) if isinstance(e, Call)]
    return sum(100 if c.function in slow else 1 for c in calls)


#: What kernels get where nothing is asked or nothing is written.
always = predicate(TRUE, {}).compiled
nothing = writer((), Layout(()), {}).compiled
