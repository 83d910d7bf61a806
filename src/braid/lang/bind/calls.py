"""The functions of the language: names, arguments, and their bound form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from braid.algebra.expressions import Call, Expression, Literal
from braid.algebra.functions import AGGREGATES, UDF_PREFIX
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING, Kind, sql_name
from braid.lang.bind.casts import NUMERIC, TIMES, coerce, is_null, kind, time_literal, widen
from braid.lang.parse import syntax
from braid.lang.parse.problems import Gather, Problem, listing, similar

if TYPE_CHECKING:
    from braid.lang.bind.expressions import Expressions

_OF_TEXT = ("upper", "lower", "trim", "ltrim", "rtrim", "reverse", "xml_escape")
#: name: function of the algebra, the arguments' types, the least number of them, the result's type.
_PLAIN: dict[str, tuple[str, tuple[pa.DataType, ...], pa.DataType]] = {
    **{n: (n, (DOUBLE,), DOUBLE) for n in ("sqrt", "exp", "ln", "log10", "log2")},
    **{n: (n, (STRING,), STRING) for n in _OF_TEXT},
    **{n: (n, (STRING, STRING), BOOLEAN) for n in ("contains", "starts_with", "ends_with")},
    "log": ("ln", (DOUBLE,), DOUBLE),
    "pow": ("pow", (DOUBLE, DOUBLE), DOUBLE),
    "power": ("pow", (DOUBLE, DOUBLE), DOUBLE),
    "length": ("length", (STRING,), BIGINT),
    "char_length": ("length", (STRING,), BIGINT),
    "startswith": ("starts_with", (STRING, STRING), BOOLEAN),
    "endswith": ("ends_with", (STRING, STRING), BOOLEAN),
    "is_nan": ("is_nan", (DOUBLE,), BOOLEAN),
    "isnan": ("is_nan", (DOUBLE,), BOOLEAN),
    "ucase": ("upper", (STRING,), STRING),
    "lcase": ("lower", (STRING,), STRING),
    "replace": ("replace", (STRING, STRING, STRING), STRING),
    "regexp_like": ("regexp_like", (STRING, STRING), BOOLEAN),
    "rlike": ("regexp_like", (STRING, STRING), BOOLEAN),
}
#: The arguments that must be constants.
_CONSTANT = {"replace": (1, 2), "regexp_like": (1,)}
_PARTS_OF_TIME = ("year", "month", "day", "hour", "minute", "second", "dayofweek")

_Handler = Callable[["Expressions", syntax.Apply], Expression]


def bind_call(binder: Expressions, node: syntax.Apply) -> Expression:
    """A function call, with the arguments cast to the types of the function."""
    name = node.function.name
    lower = name.lower()
    registered = binder.functions.get(name)
    if registered is None and (lower in _AGGREGATE_NAMES and lower not in _HANDLERS):
        hint = "aggregates stand in SAMETIME{...}; in FOLD write e.g. $.cnt + 1 AS cnt"
        raise Problem("E117", f"{name} is an aggregate and cannot be used here", node.at, hint)
    if node.star or node.distinct:
        what = "*" if node.star else "DISTINCT"
        raise Problem("E117", f"{name} takes no {what}", node.at)
    if registered is not None:
        args = typed(binder, node, registered.arguments)
        return Call(UDF_PREFIX + name, args, registered.returns, registered.cost)
    if lower in _PLAIN:
        return _plain(binder, node, *_PLAIN[lower])
    if lower in _HANDLERS:
        return _HANDLERS[lower](binder, node)
    raise _unknown(binder, node)


def is_builtin(name: str) -> bool:
    return name.lower() in (_PLAIN.keys() | _HANDLERS.keys() | _AGGREGATE_NAMES)


def builtin_names() -> tuple[str, ...]:
    return tuple(sorted(_PLAIN.keys() | _HANDLERS.keys()))


def _unknown(binder: Expressions, node: syntax.Apply) -> Problem:
    own = [function.name for function in binder.functions]
    guess = similar(node.function.name, (*builtin_names(), *own))
    known = f"functions: {listing((*own, *builtin_names()), most=60)}"
    hint = f"did you mean {guess}? {known}" if guess else known
    return Problem("E106", f"there is no function {node.function.name!r}", node.function.at, hint)


def count_args(node: syntax.Apply, least: int, most: int | None = None) -> None:
    """Refuse a call with too few or too many arguments; `most` is `least` unless given."""
    most = least if most is None else most
    given = len(node.args)
    if least <= given <= most:
        return
    wanted = f"{least} to {most}" if most < 100 else f"{least} or more"
    wanted = str(least) if least == most else wanted
    plural = "argument" if wanted == "1" else "arguments"
    message = f"{node.function.name} takes {wanted} {plural}, not {given}"
    raise Problem("E111", message, node.at)


def typed(
    binder: Expressions, node: syntax.Apply, types: tuple[pa.DataType, ...]
) -> tuple[Expression, ...]:
    """The arguments of a call, each cast to its required type."""
    count_args(node, len(types))
    gather = Gather()
    args: list[Expression] = []
    for arg, type_ in zip(node.args, types, strict=True):
        with gather:
            args.append(argument(binder, node, arg, type_))
    gather.check()
    return tuple(args)


def argument(
    binder: Expressions, node: syntax.Apply, arg: syntax.Scalar, type_: pa.DataType
) -> Expression:
    """One argument in the type of the function. Only casts without loss are implicit."""
    bound = binder.bind(arg)
    of, to = kind(bound.type), kind(type_)
    if isinstance(arg, syntax.Text) and to in TIMES:
        return time_literal(bound, arg, type_)
    widening = to is Kind.FLOAT and of in NUMERIC
    narrow_integer = of is Kind.INTEGER and to is Kind.INTEGER
    if bound.type == type_ or is_null(bound) or widening or narrow_integer:
        return coerce(bound, type_)
    name, given = sql_name(type_), sql_name(bound.type)
    hint = f"convert with CAST(... AS {name})"
    message = f"{node.function.name} takes {name} here, not {given}"
    raise Problem("E110", message, arg.at, hint)


def _plain(
    binder: Expressions,
    node: syntax.Apply,
    function: str,
    types: tuple[pa.DataType, ...],
    returns: pa.DataType,
) -> Expression:
    args = typed(binder, node, types)
    for index in _CONSTANT.get(function, ()):
        if not isinstance(args[index], Literal):
            message = f"this argument of {node.function.name} must be a constant"
            raise Problem("E110", message, node.args[index].at)
    if function == "regexp_like":
        _check_pattern(args[1], node.args[1])
    return Call(function, args, returns)


def _check_pattern(pattern: Expression, node: syntax.Scalar) -> None:
    import pyarrow.compute as pc

    assert isinstance(pattern, Literal)
    try:
        pc.match_substring_regex(pa.array([""]), pattern.value or "")
    except pa.ArrowInvalid as error:
        why = str(error).removeprefix("Invalid regular expression: ")
        raise Problem("E112", f"not a regular expression: {why}", node.at) from None


# --- functions whose types depend on their arguments ---


def _number_argument(binder: Expressions, node: syntax.Apply, arg: syntax.Scalar) -> Expression:
    bound = binder.bind(arg)
    if is_null(bound):
        return Literal(None, BIGINT)
    if kind(bound.type) not in NUMERIC | {Kind.DURATION}:
        message = f"{node.function.name} takes a number here, not {sql_name(bound.type)}"
        raise Problem("E110", message, arg.at)
    return widen(bound)


def _same_type(binder: Expressions, node: syntax.Apply) -> Expression:
    count_args(node, 1)
    arg = _number_argument(binder, node, node.args[0])
    return Call(node.function.name.lower(), (arg,), arg.type)


def _to_whole(binder: Expressions, node: syntax.Apply) -> Expression:
    """ceil and floor. A whole number stays as it is."""
    count_args(node, 1)
    arg = _number_argument(binder, node, node.args[0])
    if kind(arg.type) is Kind.INTEGER:
        return arg
    function = "floor" if node.function.name.lower() == "floor" else "ceil"
    return Call(function, (coerce(arg, DOUBLE),), BIGINT)


def _round(binder: Expressions, node: syntax.Apply) -> Expression:
    count_args(node, 1, 2)
    value = coerce(_number_argument(binder, node, node.args[0]), DOUBLE)
    digits: Expression = Literal(0, BIGINT)
    if len(node.args) == 2:
        digits = argument(binder, node, node.args[1], BIGINT)
        if not isinstance(digits, Literal):
            raise Problem("E110", "the digits of round must be a constant", node.args[1].at)
    return Call("round", (value, digits), DOUBLE)


def _modulo(binder: Expressions, node: syntax.Apply) -> Expression:
    count_args(node, 2)
    return binder.bind(syntax.Infix("%", node.args[0], node.args[1], node.at))


def _common(binder: Expressions, node: syntax.Apply) -> Expression:
    """coalesce, greatest, least: all arguments have one type."""
    count_args(node, 1, 1000)
    name = node.function.name.lower()
    function = "coalesce" if name in ("nvl", "ifnull") else name
    values = [binder.bind(arg) for arg in node.args]
    args = binder.alike(values, node.at, f"the arguments of {node.function.name} are")
    return Call(function, tuple(args), args[0].type)


def _if(binder: Expressions, node: syntax.Apply) -> Expression:
    count_args(node, 3)
    condition, then, otherwise = node.args
    return binder.bind(syntax.Case(None, ((condition, then),), otherwise, node.at))


def _null_if(binder: Expressions, node: syntax.Apply) -> Expression:
    count_args(node, 2)
    equal = syntax.Infix("=", node.args[0], node.args[1], node.at)
    nothing = syntax.Constant(None, node.at)
    return binder.bind(syntax.Case(None, ((equal, nothing),), node.args[0], node.at))


def _is_null(binder: Expressions, node: syntax.Apply) -> Expression:
    count_args(node, 1)
    negated = node.function.name.lower() == "isnotnull"
    return binder.bind(syntax.IsNull(node.args[0], negated, node.at))


def _part_of_time(binder: Expressions, node: syntax.Apply) -> Expression:
    count_args(node, 1)
    arg = binder.bind(node.args[0])
    if kind(arg.type) not in TIMES:
        message = f"{node.function.name} takes a TIMESTAMP or DATE, not {sql_name(arg.type)}"
        raise Problem("E110", message, node.args[0].at)
    return Call(node.function.name.lower(), (arg,), BIGINT)


def _substring(binder: Expressions, node: syntax.Apply) -> Expression:
    count_args(node, 2, 3)
    text = argument(binder, node, node.args[0], STRING)
    start = argument(binder, node, node.args[1], BIGINT)
    length: Expression = Literal(2**31 - 1, BIGINT)
    if len(node.args) == 3:
        length = argument(binder, node, node.args[2], BIGINT)
    return Call("substring", (text, start, length), STRING)


def _concat(binder: Expressions, node: syntax.Apply) -> Expression:
    count_args(node, 1, 1000)
    args = tuple(argument(binder, node, arg, STRING) for arg in node.args)
    return Call("concat", args, STRING)


_HANDLERS: dict[str, _Handler] = {
    **dict.fromkeys(("abs", "sign"), _same_type),
    **dict.fromkeys(("ceil", "ceiling", "floor"), _to_whole),
    **dict.fromkeys(("coalesce", "nvl", "ifnull", "greatest", "least"), _common),
    **dict.fromkeys(_PARTS_OF_TIME, _part_of_time),
    **dict.fromkeys(("substring", "substr"), _substring),
    **dict.fromkeys(("isnull", "isnotnull"), _is_null),
    "round": _round,
    "mod": _modulo,
    "if": _if,
    "nullif": _null_if,
    "concat": _concat,
}
_AGGREGATE_NAMES = AGGREGATES | {"arg_max", "arg_min"}
