"""Source code for scalar functions: how each function of the language is said in a kernel.

Every value is a pair of code fragments: whether it is NULL, and what it is. The fragments are
names of variables or constants, so they can be repeated freely. Everything is computed without
branches that could raise; where the definition says NULL, the value is a zero of the right type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from braid.algebra.expressions import Call
from braid.algebra.types import Kind, kind_of


class Code(NamedTuple):
    """A value in generated code: `null` and `value` are names or constants."""

    null: str
    value: str
    kind: Kind


NO = "False"
YES = "True"

#: Given the call, its arguments' code and a way to name an intermediate result.
Name = Callable[[str], str]
Rule = Callable[[Call, list[Code], Name], Code]


def any_of(parts: list[str]) -> str:
    """The disjunction of fragments, without the constants that do not matter."""
    known = [p for p in dict.fromkeys(parts) if p != NO]
    if YES in known:
        return YES
    return " or ".join(f"({p})" if " " in p else p for p in known) if known else NO


def all_of(parts: list[str]) -> str:
    known = [p for p in dict.fromkeys(parts) if p != YES]
    if NO in known:
        return NO
    return " and ".join(f"({p})" if " " in p else p for p in known) if known else YES


def negated(part: str) -> str:
    return {NO: YES, YES: NO}.get(part, f"not {part}" if " " not in part else f"not ({part})")


def zero(kind: Kind) -> str:
    return {Kind.FLOAT: "0.0", Kind.BOOLEAN: "False"}.get(kind, "0")


def strict(value: str, null_if: str = NO, kind: Kind | None = None) -> Rule:
    """NULL if an argument is, or where `null_if` says so; `{0}`, `{1}` are the arguments."""

    def rule(call: Call, args: list[Code], name: Name) -> Code:
        result = kind or kind_of(call.type)
        values = [a.value for a in args]
        bad = NO if null_if == NO else null_if.format(*values)
        null = name(any_of([*(a.null for a in args), bad]))
        code = value.format(*values)
        if null == NO:
            return Code(NO, name(code), result)
        return Code(null, name(f"{zero(result)} if {null} else ({code})"), result)

    return rule


def comparison(integer: str, floating: str) -> Rule:
    """A comparison; strings other than by equality are compared by their bytes."""

    def rule(call: Call, args: list[Code], name: Name) -> Code:
        if args[0].kind is Kind.FLOAT:
            return strict(floating)(call, args, name)
        if args[0].kind is Kind.STRING and call.function not in ("eq", "ne"):
            operator = integer.replace("{0}", "").replace("{1}", "").strip()
            return strict(f"string_compare(s, {{0}}, {{1}}) {operator} 0")(call, args, name)
        return strict(integer)(call, args, name)

    return rule


def arithmetic(integer: str, overflows: str, floating: str) -> Rule:
    """BIGINT with NULL on overflow, DOUBLE as it is, DECIMAL as integers within its digits."""

    def rule(call: Call, args: list[Code], name: Name) -> Code:
        if kind_of(call.type) is Kind.FLOAT:
            return strict(floating)(call, args, name)
        result = strict(integer, overflows)(call, args, name)
        if kind_of(call.type) is Kind.DECIMAL:
            return within_digits(result, call.type, name)
        return result

    return rule


def within_digits(code: Code, type_: pa.DataType, name: Name) -> Code:
    bound = 10**type_.precision
    null = name(any_of([code.null, f"{code.value} >= {bound}", f"{code.value} <= -{bound}"]))
    return Code(null, name(f"0 if {null} else {code.value}"), code.kind)


def _and(call: Call, args: list[Code], name: Name) -> Code:
    # No argument is false; then NULL if one is NULL.
    possible = name(all_of([any_of([a.null, a.value]) for a in args]))
    null = name(all_of([possible, any_of([a.null for a in args])]))
    return Code(null, name(all_of([possible, negated(null)])), Kind.BOOLEAN)


def _or(call: Call, args: list[Code], name: Name) -> Code:
    true = name(any_of([all_of([negated(a.null), a.value]) for a in args]))
    null = name(all_of([negated(true), any_of([a.null for a in args])]))
    return Code(null, true, Kind.BOOLEAN)


def _is_null(call: Call, args: list[Code], name: Name) -> Code:
    return Code(NO, args[0].null, Kind.BOOLEAN)


def _eq_null_safe(call: Call, args: list[Code], name: Name) -> Code:
    a, b = args
    same = f"float_eq({a.value}, {b.value})" if a.kind is Kind.FLOAT else f"{a.value} == {b.value}"
    both = all_of([a.null, b.null])
    neither = all_of([negated(a.null), negated(b.null), same])
    return Code(NO, name(any_of([both, neither])), Kind.BOOLEAN)


def _in(call: Call, args: list[Code], name: Name) -> Code:
    x, options = args[0], args[1:]
    equal = "float_eq({}, {})" if x.kind is Kind.FLOAT else "{} == {}"
    hits = [all_of([negated(o.null), equal.format(x.value, o.value)]) for o in options]
    found = name(all_of([negated(x.null), any_of(hits)]))
    unknown = any_of([x.null, *(o.null for o in options)])
    null = name(all_of([negated(found), unknown]))
    return Code(null, found, Kind.BOOLEAN)


def _case(call: Call, args: list[Code], name: Name) -> Code:
    kind = kind_of(call.type)
    result = _typed(args[-1], kind)
    null, value = result.null, result.value
    for condition, then in reversed(list(zip(args[:-1:2], args[1:-1:2], strict=True))):
        holds = name(all_of([negated(condition.null), condition.value]))
        chosen = _typed(then, kind)
        null = name(f"{chosen.null} if {holds} else {null}")
        value = name(f"{chosen.value} if {holds} else {value}")
    return Code(null, value, kind)


def _typed(code: Code, kind: Kind) -> Code:
    """A bare NULL has no type of its own: give it the zero of the type it stands in for."""
    return Code(YES, zero(kind), kind) if code.kind is Kind.NULL else code


def _coalesce(call: Call, args: list[Code], name: Name) -> Code:
    kind = kind_of(call.type)
    typed = [_typed(a, kind) for a in args]
    null, value = typed[-1].null, typed[-1].value
    for arg in reversed(typed[:-1]):
        value = name(f"{value} if {arg.null} else {arg.value}")
        null = name(all_of([arg.null, null]))
    return Code(null, value, kind)


def extreme(less: str, less_float: str) -> Rule:
    """greatest or least: `less` says whether the second argument is to replace the first."""

    def rule(call: Call, args: list[Code], name: Name) -> Code:
        kind = kind_of(call.type)
        best = _typed(args[0], kind)
        for arg in (_typed(a, kind) for a in args[1:]):
            if kind is Kind.FLOAT:
                better = less_float.format(best.value, arg.value)
            elif kind is Kind.STRING:
                better = f"string_compare(s, {best.value}, {arg.value}) {less} 0"
            else:
                better = f"{best.value} {less} {arg.value}"
            take = name(any_of([best.null, all_of([negated(arg.null), better])]))
            value = name(f"{arg.value} if {take} else {best.value}")
            best = Code(name(all_of([best.null, arg.null])), value, kind)
        return best

    return rule


def _floor_like(function: str) -> Rule:
    inside = "not ({0} >= -9223372036854775808.0 and {0} < 9223372036854775808.0)"
    return strict(f"int(math.{function}({{0}}))", inside)


def _sign(call: Call, args: list[Code], name: Name) -> Code:
    a = args[0]
    if a.kind is Kind.FLOAT:
        return strict("{0} if {0} != {0} else (1.0 if {0} > 0 else (-1.0 if {0} < 0 else 0.0))")(
            call, args, name
        )
    unit = 10**call.type.scale if kind_of(call.type) is Kind.DECIMAL else 1
    return strict(f"{unit} if {{0}} > 0 else (-{unit} if {{0}} < 0 else 0)")(call, args, name)


def _numeric(integer: str, floating: str, null_if: str = NO) -> Rule:
    def rule(call: Call, args: list[Code], name: Name) -> Code:
        if args[0].kind is Kind.FLOAT:
            return strict(floating)(call, args, name)
        return strict(integer, null_if)(call, args, name)

    return rule


def _div(call: Call, args: list[Code], name: Name) -> Code:
    return strict("{0} / {1}", "{1} == 0.0")(call, args, name)


def _mod(call: Call, args: list[Code], name: Name) -> Code:
    if args[0].kind is Kind.FLOAT:
        return strict("float_mod({0}, {1})", "{1} == 0.0")(call, args, name)
    return strict("int_mod({0}, {1})", "{1} == 0")(call, args, name)


def _calendar(part: str) -> Rule:
    """Parts of a date or a timestamp (UTC)."""
    days = {Kind.DATE: "{0}", Kind.TIMESTAMP: "({0} // 86400000000)"}
    time_of_day = {
        "hour": "({0} % 86400000000) // 3600000000",
        "minute": "({0} % 3600000000) // 60000000",
        "second": "({0} % 60000000) // 1000000",
    }
    civil = {"year": 0, "month": 1, "day": 2}

    def rule(call: Call, args: list[Code], name: Name) -> Code:
        kind = args[0].kind
        if part in time_of_day:
            return strict("0" if kind is Kind.DATE else time_of_day[part])(call, args, name)
        if part == "dayofweek":
            return strict(f"({days[kind]} + 4) % 7 + 1")(call, args, name)
        return strict(f"civil({days[kind]})[{civil[part]}]")(call, args, name)

    return rule


_SMALLEST = "-9223372036854775808"

RULES: dict[str, Rule] = {
    "add": arithmetic("{0} + {1}", "add_overflows({0}, {1})", "{0} + {1}"),
    "sub": arithmetic("{0} - {1}", "sub_overflows({0}, {1})", "{0} - {1}"),
    "mul": arithmetic("{0} * {1}", "mul_overflows({0}, {1})", "{0} * {1}"),
    "div": _div,
    "int_div": strict("int_div({0}, {1})", f"{{1}} == 0 or ({{1}} == -1 and {{0}} == {_SMALLEST})"),
    "mod": _mod,
    "neg": _numeric("-{0}", "-{0}", f"{{0}} == {_SMALLEST}"),
    "abs": _numeric("abs({0})", "abs({0})", f"{{0}} == {_SMALLEST}"),
    "sign": _sign,
    "eq": comparison("{0} == {1}", "float_eq({0}, {1})"),
    "ne": comparison("{0} != {1}", "not float_eq({0}, {1})"),
    "lt": comparison("{0} < {1}", "float_lt({0}, {1})"),
    "le": comparison("{0} <= {1}", "float_le({0}, {1})"),
    "gt": comparison("{0} > {1}", "float_lt({1}, {0})"),
    "ge": comparison("{0} >= {1}", "float_le({1}, {0})"),
    "eq_null_safe": _eq_null_safe,
    "and": _and,
    "or": _or,
    "not": strict("not {0}"),
    "is_null": _is_null,
    "is_nan": lambda call, args, name: Code(
        NO,
        name(all_of([negated(args[0].null), f"{args[0].value} != {args[0].value}"])),
        Kind.BOOLEAN,
    ),
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "greatest": extreme("<", "float_lt({0}, {1})"),
    "least": extreme(">", "float_lt({1}, {0})"),
    "ceil": _floor_like("ceil"),
    "floor": _floor_like("floor"),
    "round": strict("round_half_up({0}, {1})"),
    "sqrt": strict("math.sqrt({0}) if {0} >= 0 else math.nan"),
    "exp": strict("float_exp({0})"),
    "ln": strict("math.log({0})", "{0} <= 0"),
    "log10": strict("math.log10({0})", "{0} <= 0"),
    "log2": strict("math.log2({0})", "{0} <= 0"),
    "pow": strict("float_pow({0}, {1})"),
    "length": strict("string_length(s, {0})"),
    "contains": strict("string_contains(s, {0}, {1})"),
    "starts_with": strict("string_starts_with(s, {0}, {1})"),
    "ends_with": strict("string_ends_with(s, {0}, {1})"),
    "like": strict("string_like(s, {0}, {1})"),
    **{p: _calendar(p) for p in ("year", "month", "day", "hour", "minute", "second", "dayofweek")},
}


def cast(call: Call, args: list[Code], name: Name) -> Code:
    """CAST between kinds that have a form in words; NULL where the value does not fit."""
    arg = args[0]
    source, target = arg.kind, kind_of(call.type)
    if source is Kind.NULL:
        return Code(YES, zero(target), target)
    rule = _CASTS.get((source, target))
    assert rule is not None, f"no cast from {source} to {target}"
    return rule(call, args, name)


def _to_integer(call: Call, args: list[Code], name: Name) -> Code:
    bits = call.type.bit_width
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if args[0].kind is Kind.FLOAT:
        # Truncates; NaN fails both comparisons.
        inside = f"not ({{0}} > {float(low) - 1!r} and {{0}} < {float(high) + 1!r})"
        if bits == 64:
            inside = "not ({0} >= -9223372036854775808.0 and {0} < 9223372036854775808.0)"
        return strict("int({0})", inside)(call, args, name)
    if bits == 64:
        return strict("{0}")(call, args, name)
    return strict("{0}", f"{{0}} < {low} or {{0}} > {high}")(call, args, name)


def _to_float(call: Call, args: list[Code], name: Name) -> Code:
    narrow = pa.types.is_float32(call.type)
    form = "float(np.float32({0}))" if narrow else "float({0})"
    return strict(form)(call, args, name)


def _integer_to_decimal(call: Call, args: list[Code], name: Name) -> Code:
    scale = 10**call.type.scale
    result = strict(f"{{0}} * {scale}", f"mul_overflows({{0}}, {scale})")(call, args, name)
    return within_digits(result, call.type, name)


def _rescale(call: Call, args: list[Code], name: Name) -> Code:
    before = call.args[0].type.scale
    up, down = 10 ** max(0, call.type.scale - before), 10 ** max(0, before - call.type.scale)
    code = f"decimal_rescale({{0}}, {up}, {down})"
    result = strict(code, f"mul_overflows({{0}}, {up})")(call, args, name)
    return within_digits(result, call.type, name)


def _decimal_to_float(call: Call, args: list[Code], name: Name) -> Code:
    return strict(f"float({{0}}) / {float(10 ** call.args[0].type.scale)!r}")(call, args, name)


def _decimal_to_integer(call: Call, args: list[Code], name: Name) -> Code:
    whole = strict(f"int_div({{0}}, {10 ** call.args[0].type.scale})")(call, args, name)
    return _to_integer(call, [Code(whole.null, whole.value, Kind.INTEGER)], name)


_SAME = strict("{0}")
_I, _F, _B, _D = Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.DECIMAL
_CASTS: dict[tuple[Kind, Kind], Rule] = {
    (_I, _I): _to_integer,
    (_F, _I): _to_integer,
    (_D, _I): _decimal_to_integer,
    (_B, _I): strict("1 if {0} else 0"),
    (Kind.DURATION, _I): _to_integer,
    (Kind.TIMESTAMP, _I): strict("{0} // 1000000"),
    (_I, _F): _to_float,
    (_F, _F): _to_float,
    (_B, _F): strict("1.0 if {0} else 0.0"),
    (_D, _F): _decimal_to_float,
    (_I, _D): _integer_to_decimal,
    (_B, _D): _integer_to_decimal,
    (_D, _B): strict("{0} != 0"),
    (Kind.DURATION, _F): strict("float({0})"),
    (_D, _D): _rescale,
    (_I, _B): strict("{0} != 0"),
    (_F, _B): strict("{0} != 0.0"),
    (_B, _B): _SAME,
    (_I, Kind.DURATION): _SAME,
    (Kind.DURATION, Kind.DURATION): _SAME,
    (_I, Kind.TIMESTAMP): strict("{0} * 1000000", "mul_overflows({0}, 1000000)"),
    (Kind.TIMESTAMP, Kind.TIMESTAMP): _SAME,
    (Kind.DATE, Kind.TIMESTAMP): strict("{0} * 86400000000"),
    (Kind.TIMESTAMP, Kind.DATE): strict("{0} // 86400000000"),
    (Kind.DATE, Kind.DATE): _SAME,
    (Kind.STRING, Kind.STRING): _SAME,
}
