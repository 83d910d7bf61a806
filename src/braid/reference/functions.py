"""What every function of the language computes.

The table in `algebra/functions.py` says which functions there are and of which types. Three
rules hold everywhere: a result that does not fit its type is NULL, a division by zero is NULL,
and a NULL argument makes the result NULL unless the function is about NULLs (`STRICT` lists
the functions of that last rule).

Floating-point arithmetic is IEEE double, operation by operation, with the functions of the C
library: `pow(1, NaN)` is 1, for instance, and `round` is defined below by double operations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa

from braid.algebra.calendar import PARTS, calendar_part
from braid.algebra.casts import WIDE, cast, fit
from braid.algebra.expressions import Call
from braid.algebra.markup import escaped_attribute, escaped_text
from braid.algebra.types import Kind, kind_of
from braid.reference.ordering import compare, equal, is_nan, order_key

_ALL_WHOLE = 2.0**52  # from here on every double is an integer


def apply(call: Call, arguments: list[Any]) -> Any:
    """The value of a call whose arguments have these values."""
    if call.function == "cast":
        return cast(arguments[0], call.args[0].type, call.type)
    if call.function in PARTS:
        return None if arguments[0] is None else _part(call, arguments[0])
    if call.function == "get_item":
        return _get_item(call.args[0].type, arguments[0], arguments[1])
    if call.function in LENIENT:
        return LENIENT[call.function](arguments)
    if any(argument is None for argument in arguments):
        return None
    if call.function in ARITHMETIC:
        with localcontext(WIDE):
            return fit(ARITHMETIC[call.function](*arguments), call.type)
    return STRICT[call.function](*arguments)


# ---- functions that are about NULLs -----------------------------------------------------------


def _and(arguments: list[Any]) -> bool | None:
    if any(a is False for a in arguments):
        return False
    return None if any(a is None for a in arguments) else True


def _or(arguments: list[Any]) -> bool | None:
    if any(a is True for a in arguments):
        return True
    return None if any(a is None for a in arguments) else False


def _in(arguments: list[Any]) -> bool | None:
    """Unknown if the value is NULL, or if it is not found and one of the choices is NULL."""
    wanted, choices = arguments[0], arguments[1:]
    if wanted is None:
        return None
    if any(choice is not None and equal(wanted, choice) for choice in choices):
        return True
    return None if any(choice is None for choice in choices) else False


def _case(arguments: list[Any]) -> Any:
    """The value after the first condition that is true, else the last argument."""
    for condition, result in zip(arguments[:-1:2], arguments[1::2], strict=True):
        if condition is True:
            return result
    return arguments[-1]


def _coalesce(arguments: list[Any]) -> Any:
    return next((a for a in arguments if a is not None), None)


def _greatest(arguments: list[Any]) -> Any:
    return max((a for a in arguments if a is not None), key=order_key, default=None)


def _least(arguments: list[Any]) -> Any:
    return min((a for a in arguments if a is not None), key=order_key, default=None)


def _eq_null_safe(arguments: list[Any]) -> bool:
    left, right = arguments
    return equal(left, right)


def _xml_content(text: str) -> str:
    return text if text.startswith("<") else escaped_text(text)


LENIENT: dict[str, Callable[[list[Any]], Any]] = {
    "and": _and,
    "or": _or,
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "greatest": _greatest,
    "least": _least,
    "eq_null_safe": _eq_null_safe,
    "is_null": lambda arguments: arguments[0] is None,
    "is_nan": lambda arguments: is_nan(arguments[0]),
    "xml_text": lambda arguments: escaped_text(arguments[0] or ""),
    "xml_attribute": lambda arguments: escaped_attribute(arguments[0] or ""),
    "xml_content": lambda arguments: _xml_content(arguments[0] or ""),
}


# ---- arithmetic: the result is then fitted into its type ---------------------------------------


def _div(left: float, right: float) -> float | None:
    return None if right == 0 else left / right


def _int_div(left: int, right: int) -> int | None:
    """Towards zero, unlike Python's `//`."""
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _mod(left: Any, right: Any) -> Any:
    """With the sign of the dividend, so that `left = (left DIV right) * right + mod`."""
    if right == 0:
        return None
    if isinstance(left, int):
        remainder = abs(left) % abs(right)
        return -remainder if left < 0 else remainder
    if isinstance(left, Decimal):
        return left % right
    return math.nan if math.isinf(left) else math.fmod(left, right)


def _sign(value: Any) -> Any:
    if is_nan(value):
        return value
    return type(value)((value > 0) - (value < 0))


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda left, right: left + right,
    "sub": lambda left, right: left - right,
    "mul": lambda left, right: left * right,
    "div": _div,
    "int_div": _int_div,
    "mod": _mod,
    "neg": lambda value: -value,
    "abs": abs,
    "sign": _sign,
    "ceil": lambda value: math.ceil(value) if math.isfinite(value) else None,
    "floor": lambda value: math.floor(value) if math.isfinite(value) else None,
}


# ---- functions of doubles ----------------------------------------------------------------------


def _round(value: float, digits: int) -> float:
    """Half away from zero, in double operations: scale, take the nearest integer, scale back."""
    if not math.isfinite(value):
        return value
    scale = 10.0 ** abs(digits)
    scaled = value * scale if digits >= 0 else value / scale
    if not math.isfinite(scaled) or abs(scaled) >= _ALL_WHOLE:
        return value
    whole = float(math.trunc(scaled))
    if abs(scaled - whole) >= 0.5:
        whole += math.copysign(1.0, scaled)
    return whole / scale if digits >= 0 else whole * scale


def _sqrt(value: float) -> float:
    return math.nan if value < 0 else math.sqrt(value)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float | None]:
    return lambda value: None if value <= 0 else function(value)


def _pow(base: float, exponent: float) -> float:
    """As in C, where Python raises instead."""
    odd = exponent % 2 == 1 if math.isfinite(exponent) else False
    negative = math.copysign(1.0, base) < 0 and odd
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if negative else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        return -math.inf if negative else math.inf


# ---- functions of strings ----------------------------------------------------------------------


def _like(text: str, pattern: str) -> bool:
    """`%` any characters, `_` one; a backslash makes the next character stand for itself."""
    parts = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            parts.append(re.escape(next(characters, "\\")))
        elif character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        else:
            parts.append(re.escape(character))
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _substring(text: str, start: int, length: int) -> str:
    """From the 1-based position (0 counts as 1, negative from the end), `length` characters.

    A start before the first character still uses up length, as in Spark:
    `substring('abc', -5, 3)` is `a`.
    """
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    stop = first + length
    return text[max(first, 0) : stop] if stop > max(first, 0) else ""


def _replace(text: str, search: str, replacement: str) -> str:
    return text.replace(search, replacement) if search else text


# ---- the others --------------------------------------------------------------------------------


def _part(call: Call, moment: int) -> int:
    is_date = kind_of(call.args[0].type) is Kind.DATE
    return calendar_part(call.function, moment, is_date=is_date)


def _get_item(type_: pa.DataType, container: Any, key: Any) -> Any:
    """An element by its 0-based position, or the value of a map's key; NULL if there is none."""
    if container is None or key is None:
        return None
    if pa.types.is_map(type_):
        entries = container.items() if isinstance(container, dict) else container
        return next((found for k, found in entries if equal(k, key)), None)
    return container[key] if 0 <= key < len(container) else None


STRICT: dict[str, Callable[..., Any]] = {
    "eq": lambda left, right: compare(left, right) == 0,
    "ne": lambda left, right: compare(left, right) != 0,
    "lt": lambda left, right: compare(left, right) < 0,
    "le": lambda left, right: compare(left, right) <= 0,
    "gt": lambda left, right: compare(left, right) > 0,
    "ge": lambda left, right: compare(left, right) >= 0,
    "not": lambda value: not value,
    "round": _round,
    "sqrt": _sqrt,
    "exp": _exp,
    "ln": _logarithm(math.log),
    "log10": _logarithm(math.log10),
    "log2": _logarithm(math.log2),
    "pow": _pow,
    "length": len,
    "contains": lambda text, part: part in text,
    "starts_with": lambda text, part: text.startswith(part),
    "ends_with": lambda text, part: text.endswith(part),
    "like": _like,
    "upper": lambda text: text.upper(),
    "lower": lambda text: text.lower(),
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "reverse": lambda text: text[::-1],
    "substring": _substring,
    "concat": lambda *texts: "".join(texts),
    "xml": lambda *texts: "".join(texts),
    "xml_escape": escaped_attribute,
    "replace": _replace,
    "regexp_like": lambda text, pattern: re.search(pattern, text) is not None,
    "get_field": lambda struct, name: struct.get(name),
}
