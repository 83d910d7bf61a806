"""Expressions as text, for `explain` and for messages."""

from __future__ import annotations

from braid.algebra.expressions import Call, Duration, Expression, Literal, Parameter, Ref, Source
from braid.algebra.types import Kind, kind_of, sql_name

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "int_div": "DIV",
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq_null_safe": "<=>",
    "and": "AND", "or": "OR", "like": "LIKE",
}  # fmt: skip
_PREFIX = {Source.INPUT: "", Source.FIRST: "$1.", Source.SECOND: "$2.", Source.LAST: "$."}


def show(expression: Expression) -> str:
    """The expression in the language's own syntax, casts that the binder added left out."""
    match expression:
        case Literal():
            return _show_literal(expression)
        case Parameter():
            return f":{expression.index + 1}"
        case Ref():
            return _PREFIX[expression.source] + expression.name
        case Duration():
            return "DUR"
        case Call(function="cast", args=(arg,)):
            return (
                f"CAST({show(arg)} AS {sql_name(expression.type)})"
                if _matters(expression)
                else show(arg)
            )
        case Call(function="xml"):
            return "".join(map(_show_piece, expression.args))
        case Call(function="not", args=(arg,)):
            return f"NOT {_inner(arg)}"
        case Call(function="is_null", args=(arg,)):
            return f"{_inner(arg)} IS NULL"
        case Call(function="in", args=(arg, *options)):
            return f"{_inner(arg)} IN ({', '.join(map(show, options))})"
        case Call() if expression.function in _INFIX:
            return f" {_INFIX[expression.function]} ".join(map(_inner, expression.args))
        case _:
            return f"{expression.function}({', '.join(map(show, expression.args))})"


def _show_piece(piece: Expression) -> str:
    """A part of an element constructor: its text, or a value in braces."""
    if isinstance(piece, Literal):
        return str(piece.value).replace("{", "{{").replace("}", "}}")
    if isinstance(piece, Ref):
        return f"{{{piece.name[1:-1]}}}"  # a copy of what a variable is bound to
    assert isinstance(piece, Call)
    return f"{{{show(piece.args[0])}}}"


def _matters(expression: Call) -> bool:
    """Whether a cast changes more than the width of a number."""
    numeric = {Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.DURATION}
    return not {kind_of(expression.type), kind_of(expression.args[0].type)} <= numeric


def _inner(expression: Expression) -> str:
    text = show(expression)
    compound = isinstance(expression, Call) and expression.function in _INFIX
    return f"({text})" if compound else text


def _show_literal(literal: Literal) -> str:
    if literal.value is None:
        return "NULL"
    if isinstance(literal.value, str):
        return "'" + literal.value.replace("'", "''") + "'"
    if isinstance(literal.value, bool):
        return str(literal.value).upper()
    if kind_of(literal.type) is Kind.DURATION:
        return show_duration(int(literal.value))
    return str(literal.value)


def show_duration(microseconds: int) -> str:
    """The largest unit that says it exactly."""
    units = (
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
    )
    for size, name in units:
        if microseconds and microseconds % size == 0:
            return f"{microseconds // size} {name}"
    return f"{microseconds} us"
