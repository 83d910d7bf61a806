"""Scalar expressions: syntax -> typed algebra, with all implicit casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from braid.algebra.expressions import Call, Expression, Literal
from braid.algebra.schema import TICKS
from braid.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    DURATION,
    MAX_KERNEL_DIGITS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Kind,
    common_type,
    decimal_shape,
    sql_name,
)
from braid.lang.bind.calls import bind_call
from braid.lang.bind.casts import (
    NUMERIC,
    TIMES,
    castable,
    coerce,
    decimal_number,
    is_null,
    kind,
    mismatch,
    negated,
    number,
    read_again,
    time_literal,
    widen,
)
from braid.lang.bind.constants import Constants
from braid.lang.bind.elements import bind_markup
from braid.lang.bind.scopes import Scope
from braid.lang.bind.user_functions import Functions
from braid.lang.parse import syntax
from braid.lang.parse.problems import At, Gather, Problem, listing, similar
from braid.lang.parse.type_names import bind_type

_COMPARISONS = {
    "=": "eq", "==": "eq", "!=": "ne", "<>": "ne", "≠": "ne", "<": "lt", ">": "gt",
    "<=": "le", "≤": "le", ">=": "ge", "≥": "ge", "<=>": "eq_null_safe",
}  # fmt: skip
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "DIV": "int_div"}


#: The most parts of the expressions of one place.
MAX_SIZE = 50_000


class Expressions:
    """A binder of the expressions of one place in a query, with the names of `scope`."""

    def __init__(self, scope: Scope, functions: Functions, constants: Constants) -> None:
        self.scope = scope
        self.functions = functions
        self._constants = constants
        self._size = 0

    def bind(self, node: syntax.Scalar) -> Expression:
        # BETWEEN, NULLIF and the like repeat their operand, so nested ones grow exponentially.
        self._size += 1
        if self._size > MAX_SIZE:
            raise Problem("E122", "this expression is too large when written out", node.at)
        return _BINDERS[type(node)](self, node)

    def predicate(self, node: syntax.Scalar) -> Expression:
        bound = self.bind(node)
        if is_null(bound):
            return Literal(None, BOOLEAN)
        if bound.type != BOOLEAN:
            message = f"a condition must be BOOLEAN, and this is {sql_name(bound.type)}"
            raise Problem("E110", message, node.at)
        return bound

    def value(self, node: syntax.Scalar) -> Expression:
        """A value that becomes an attribute. NULL alone has no type."""
        bound = self.bind(node)
        if is_null(bound):
            hint = "write CAST(NULL AS STRING), or whatever type is meant"
            raise Problem("E110", "NULL has no type here", node.at, hint)
        return bound

    # --- leaves ---

    def _name(self, node: syntax.Name) -> Expression:
        return self.scope.resolve(node)

    def _number(self, node: syntax.Number) -> Expression:
        return self._constants.read("number", node, number(node))

    def _text(self, node: syntax.Text) -> Expression:
        return self._constants.read("text", node, Literal(node.value, STRING))

    def _parameter(self, node: syntax.Parameter) -> Expression:
        parameter = self._constants.parameter(node)
        if kind(parameter.type) is Kind.DURATION and self.scope.unit == TICKS:
            raise _ticks(node.at)
        return parameter

    def _constant(self, node: syntax.Constant) -> Expression:
        return Literal(node.value, pa.null() if node.value is None else BOOLEAN)

    def _period(self, node: syntax.Period) -> Expression:
        if self.scope.unit == TICKS:
            raise _ticks(node.at)
        return self._constants.read("period", node, Literal(node.microseconds, DURATION))

    def _dur(self, node: syntax.Dur) -> Expression:
        return self.scope.duration(node.at)

    # --- logic ---

    def _junction(self, node: syntax.Junction) -> Expression:
        parts: list[Expression] = []
        gather = Gather()
        for part in node.parts:
            with gather:
                bound = self.predicate(part)
                nested = isinstance(bound, Call) and bound.function == node.operator
                parts.extend(bound.args if nested and isinstance(bound, Call) else (bound,))
        gather.check()
        return Call(node.operator, tuple(parts), BOOLEAN)

    def _prefix(self, node: syntax.Prefix) -> Expression:
        if node.operator == "NOT":
            return Call("not", (self.predicate(node.operand),), BOOLEAN)
        operand = self.bind(node.operand)
        if is_null(operand):
            return Literal(None, BIGINT)
        of = kind(operand.type)
        if of not in NUMERIC and of is not Kind.DURATION:
            message = f"{node.operator} needs a number, and this is {sql_name(operand.type)}"
            raise Problem("E110", message, node.operand.at)
        wide = widen(operand)
        if node.operator == "+":
            return wide
        folded = negated(wide) if isinstance(wide, Literal) else None
        return folded or Call("neg", (wide,), wide.type)

    def _is_null(self, node: syntax.IsNull) -> Expression:
        operand = self.bind(node.operand)
        typed = Literal(None, BOOLEAN) if is_null(operand) else operand
        return _not_if(node.negated, Call("is_null", (typed,), BOOLEAN))

    # --- comparison ---

    def _infix(self, node: syntax.Infix) -> Expression:
        if node.operator in _COMPARISONS:
            left, right = self.unified(node.left, node.right, node.at)
            return Call(_COMPARISONS[node.operator], (left, right), BOOLEAN)
        if node.operator == "||":
            parts = tuple(self._string(p, "||") for p in (node.left, node.right))
            return Call("concat", parts, STRING)
        return self._arithmetic(node)

    def unified(
        self, left: syntax.Scalar, right: syntax.Scalar, at: At
    ) -> tuple[Expression, Expression]:
        """Both sides of a comparison in a common type."""
        a, b = self._adapted(left, right)
        return self.unify(a, b, at)

    def unify(self, a: Expression, b: Expression, at: At) -> tuple[Expression, Expression]:
        if is_null(a) and is_null(b):
            return Literal(None, BIGINT), Literal(None, BIGINT)
        type_ = _comparable(a, b)
        if type_ is None or kind(type_) is Kind.OPAQUE:
            raise mismatch("cannot compare", a, b, at)
        return coerce(a, type_), coerce(b, type_)

    def _adapted(self, left: syntax.Scalar, right: syntax.Scalar) -> tuple[Expression, Expression]:
        """Both sides, with literals read in the type of the other side."""
        gather = Gather()
        with gather:
            a = self.bind(left)
        with gather:
            b = self.bind(right)
        gather.check()
        return self._literal_beside(left, a, b), self._literal_beside(right, b, a)

    def _literal_beside(
        self, node: syntax.Scalar, bound: Expression, other: Expression
    ) -> Expression:
        of = kind(other.type)
        if isinstance(node, syntax.Number) and of is Kind.DECIMAL:
            return read_again(bound, "decimal", None, decimal_number(node)) or bound
        if isinstance(node, syntax.Number) and of is Kind.INTEGER and bound.type == BIGINT:
            # A literal that fits the column's type saves a cast of the column.
            fitted = coerce(bound, other.type)
            return fitted if isinstance(fitted, Literal) else bound
        if isinstance(node, syntax.Text) and (of in TIMES or of is Kind.DURATION):
            return time_literal(bound, node, other.type)
        return bound

    def _between(self, node: syntax.Between) -> Expression:
        low = self.unified(node.operand, node.low, node.at)
        high = self.unified(node.operand, node.high, node.at)
        both = Call("and", (Call("ge", low, BOOLEAN), Call("le", high, BOOLEAN)), BOOLEAN)
        return _not_if(node.negated, both)

    def _among(self, node: syntax.Among) -> Expression:
        subject = self.bind(node.operand)
        choices = [self._literal_beside(c, self.bind(c), subject) for c in node.choices]
        if all(isinstance(choice, Literal) for choice in choices):
            both = zip(choices, node.choices, strict=True)
            pairs = [self.unify(subject, choice, c.at) for choice, c in both]
            if len({str(side.type) for side, _ in pairs}) == 1:
                args = (pairs[0][0], *(choice for _, choice in pairs))
                return _not_if(node.negated, Call("in", args, BOOLEAN))
        pairs = [self.unified(node.operand, choice, choice.at) for choice in node.choices]
        equals = tuple(Call("eq", pair, BOOLEAN) for pair in pairs)
        any_ = equals[0] if len(equals) == 1 else Call("or", equals, BOOLEAN)
        return _not_if(node.negated, any_)

    def _like(self, node: syntax.Like) -> Expression:
        args = tuple(self._string(p, "LIKE") for p in (node.operand, node.pattern))
        return _not_if(node.negated, Call("like", args, BOOLEAN))

    def _string(self, node: syntax.Scalar, place: str) -> Expression:
        bound = self.bind(node)
        if is_null(bound) or kind(bound.type) is Kind.STRING:
            return coerce(bound, STRING)
        message = f"{place} needs a STRING, and this is {sql_name(bound.type)}"
        raise Problem("E110", message, node.at, "convert with CAST(... AS STRING)")

    # --- arithmetic ---

    def _arithmetic(self, node: syntax.Infix) -> Expression:
        a, b = self._adapted(node.left, node.right)
        function = _ARITHMETIC[node.operator]
        if is_null(a) or is_null(b):
            a, b = self.unify(a, b, node.at)
        bound = arithmetic(function, a, b)
        if bound is None:
            raise mismatch(f"'{node.operator}' does not take", a, b, node.at)
        return bound

    # --- the rest ---

    def _case(self, node: syntax.Case) -> Expression:
        gather = Gather()
        conditions: list[Expression] = []
        values: list[Expression] = []
        for condition, value in node.branches:
            with gather:
                conditions.append(self._when(node.subject, condition))
            with gather:
                values.append(self.bind(value))
        with gather:
            if node.otherwise is not None:
                values.append(self.bind(node.otherwise))
        gather.check()
        typed = self.alike(values, node.at, "the values of CASE are")
        if node.otherwise is None:
            typed.append(Literal(None, typed[0].type))
        pairs = [e for pair in zip(conditions, typed, strict=False) for e in pair]
        return Call("case", (*pairs, typed[-1]), typed[0].type)

    def _when(self, subject: syntax.Scalar | None, condition: syntax.Scalar) -> Expression:
        if subject is None:
            return self.predicate(condition)
        return Call("eq", self.unified(subject, condition, condition.at), BOOLEAN)

    def alike(self, values: list[Expression], at: At, what: str) -> list[Expression]:
        """Several values in their common type."""
        type_ = values[0].type
        for value in values[1:]:
            common = common_type(type_, value.type)
            if common is None:
                names = listing(dict.fromkeys(sql_name(v.type) for v in values))
                raise Problem("E110", f"{what} of different types: {names}", at)
            type_ = common
        if kind(type_) is Kind.OPAQUE:
            raise Problem("E110", f"{what} of a type that cannot be chosen from", at)
        if kind(type_) is Kind.NULL:
            hint = "write CAST(NULL AS STRING), or whatever type is meant"
            raise Problem("E110", "NULL has no type here", at, hint)
        return [coerce(value, type_) for value in values]

    def _cast(self, node: syntax.Cast) -> Expression:
        type_ = bind_type(node.type)
        operand = self.bind(node.operand)
        if isinstance(node.operand, syntax.Text) and kind(type_) in TIMES:
            return time_literal(operand, node.operand, type_)
        if not castable(operand.type, type_):
            raise mismatch("there is no cast between", operand, Literal(None, type_), node.at)
        return coerce(operand, type_)

    def _apply(self, node: syntax.Apply) -> Expression:
        return bind_call(self, node)

    def _field(self, node: syntax.Field) -> Expression:
        operand = self.bind(node.operand)
        if not pa.types.is_struct(operand.type):
            message = f"a {sql_name(operand.type)} has no fields"
            raise Problem("E110", message, node.operand.at)
        names = [field.name for field in operand.type]
        if node.name.name not in names:
            guess = similar(node.name.name, names)
            hint = f"fields: {listing(names)}"
            hint = f"did you mean {guess}? {hint}" if guess else hint
            raise Problem("E103", f"no field {node.name.name!r}", node.name.at, hint)
        type_ = operand.type.field(node.name.name).type
        return Call("get_field", (operand, Literal(node.name.name, STRING)), type_)

    def _element(self, node: syntax.Element) -> Expression:
        operand, index = self.bind(node.operand), self.bind(node.index)
        if not isinstance(index, Literal):
            raise Problem("E110", "an element is chosen by a constant", node.index.at)
        if pa.types.is_list(operand.type):
            key, type_ = BIGINT, operand.type.value_type
        elif pa.types.is_map(operand.type):
            key, type_ = operand.type.key_type, operand.type.item_type
        else:
            message = f"a {sql_name(operand.type)} has no elements"
            raise Problem("E110", message, node.operand.at)
        if kind(index.type) is not kind(key):
            raise mismatch("the key does not fit:", Literal(None, key), index, node.index.at)
        return Call("get_item", (operand, coerce(index, key)), type_)


def _ticks(at: At) -> Problem:
    hint = "its time column is an integer: write a number of ticks"
    return Problem("E114", "this stream counts ticks, not seconds", at, hint)


def _not_if(negated: bool, expression: Expression) -> Expression:
    return Call("not", (expression,), BOOLEAN) if negated else expression


def _comparable(a: Expression, b: Expression) -> pa.DataType | None:
    kinds = {kind(a.type), kind(b.type)}
    if kinds in ({Kind.DURATION, Kind.FLOAT}, {Kind.DURATION, Kind.DECIMAL}):
        return DOUBLE
    return common_type(a.type, b.type)


def arithmetic(function: str, a: Expression, b: Expression) -> Expression | None:
    """`a function b` with its casts; None if the operation doesn't exist."""
    timed = _time_arithmetic(function, a, b)
    if timed is not None:
        return timed
    if kind(a.type) is Kind.DURATION:
        a = coerce(a, BIGINT)
    if kind(b.type) is Kind.DURATION:
        b = coerce(b, BIGINT)
    kinds = {kind(a.type), kind(b.type)}
    if not kinds <= NUMERIC:
        return None
    if function == "int_div":
        return _in(BIGINT, function, a, b) if kinds == {Kind.INTEGER} else None
    if function == "div" or Kind.FLOAT in kinds:
        return _in(DOUBLE, function, a, b)
    if kinds == {Kind.INTEGER}:
        return _in(BIGINT, function, a, b)
    return _in(DOUBLE, function, a, b) if function == "mod" else _decimal(function, a, b)


def _in(type_: pa.DataType, function: str, a: Expression, b: Expression) -> Expression:
    return Call(function, (coerce(a, type_), coerce(b, type_)), type_)


def _time_arithmetic(function: str, a: Expression, b: Expression) -> Expression | None:
    """Arithmetic of times and durations. A duration with a plain number counts ticks; it is not
    handled here."""
    if function not in ("add", "sub"):
        return None
    left, right = kind(a.type), kind(b.type)
    if left is Kind.DURATION and right is Kind.DURATION:
        return Call(function, (a, b), DURATION)
    if function == "add" and left is Kind.DURATION and right in TIMES:
        a, b, left, right = b, a, right, left
    if left in TIMES and right is Kind.DURATION:
        moment = coerce(a, TIMESTAMP) if a.type == DATE else a
        return Call(function, (moment, b), moment.type)
    if function == "sub" and left in TIMES and right in TIMES:
        type_ = TIMESTAMP_NTZ if TIMESTAMP_NTZ in (a.type, b.type) else TIMESTAMP
        return Call("sub", (coerce(a, type_), coerce(b, type_)), DURATION)
    return None


def _decimal(function: str, a: Expression, b: Expression) -> Expression | None:
    """Exact up to 18 digits: sums have the common scale, products the sum of the scales."""
    (p1, s1), (p2, s2) = decimal_shape(a.type), decimal_shape(b.type)
    if function == "mul":
        precision, scale = p1 + p2, s1 + s2
        if scale > MAX_KERNEL_DIGITS:
            return None
        type_ = pa.decimal128(min(precision, MAX_KERNEL_DIGITS), scale)
        sides = (coerce(a, pa.decimal128(p1, s1)), coerce(b, pa.decimal128(p2, s2)))
        return Call("mul", sides, type_)
    common = common_type(a.type, b.type)
    if common is None:
        return None
    type_ = pa.decimal128(min(common.precision + 1, MAX_KERNEL_DIGITS), common.scale)
    return Call(function, (coerce(a, common), coerce(b, common)), type_)


_BINDERS: dict[type, Callable[[Expressions, Any], Expression]] = {
    syntax.Name: Expressions._name,
    syntax.Number: Expressions._number,
    syntax.Text: Expressions._text,
    syntax.Markup: bind_markup,
    syntax.Constant: Expressions._constant,
    syntax.Parameter: Expressions._parameter,
    syntax.Period: Expressions._period,
    syntax.Dur: Expressions._dur,
    syntax.Junction: Expressions._junction,
    syntax.Prefix: Expressions._prefix,
    syntax.Infix: Expressions._infix,
    syntax.Between: Expressions._between,
    syntax.Among: Expressions._among,
    syntax.Like: Expressions._like,
    syntax.IsNull: Expressions._is_null,
    syntax.Case: Expressions._case,
    syntax.Cast: Expressions._cast,
    syntax.Apply: Expressions._apply,
    syntax.Field: Expressions._field,
    syntax.Element: Expressions._element,
}
