"""Functions over whole Arrow columns: those that build strings or take nested values apart.

They run over the rows of one channel. Where Arrow has a function with exactly our definition it
is used; casts to and from text, whose definition is `algebra/casts.py`, are computed once for
each distinct value of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.casts import cast
from braid.algebra.expressions import Call, Expression, Literal, Ref
from braid.algebra.functions import UDF_PREFIX
from braid.algebra.markup import ATTRIBUTE_ESCAPES, NOT_IN_XML, REPLACEMENT, TEXT_ESCAPES
from braid.algebra.types import Kind, kind_of
from braid.operators.core import user_functions
from braid.operators.core.base import Context
from braid.operators.core.columns import Rows, column_to_arrow
from braid.plan.specs import Shape


def evaluate(expression: Expression, rows: Rows, shape: Shape, context: Context) -> pa.Array:
    """The value of an expression of vector functions, columns and literals for each row."""
    match expression:
        case Ref():
            return column_to_arrow(
                rows, shape.layout, expression.name, expression.type, context.values
            )
        case Literal():
            return pa.array(
                [to_arrow(expression.value, expression.type)] * len(rows), expression.type
            )
        case Call():
            return _apply(expression, rows, shape, context)
    raise AssertionError(f"not a vector expression: {expression}")


def _apply(call: Call, rows: Rows, shape: Shape, context: Context) -> pa.Array:
    args = [evaluate(arg, rows, shape, context) for arg in call.args]
    if call.function.startswith(UDF_PREFIX):
        function = context.functions[call.function.removeprefix(UDF_PREFIX)]
        return user_functions.call(function, args, context.failures)
    if call.function == "cast":
        source = call.args[0].type
        return distinct(args[0], lambda v: cast(v, source, call.type), source, call.type)
    result = _FUNCTIONS[call.function](call, args)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def distinct(
    array: pa.Array, function: Callable[[Any], Any], source: pa.DataType, target: pa.DataType
) -> pa.Array:
    """Apply a function once to each distinct value (to each value of types without a dictionary)."""
    if pa.types.is_nested(array.type):
        return pa.array([function(v) for v in array.to_pylist()], target)
    encoded = array.dictionary_encode()
    results = [
        None if v is None else to_arrow(function(v), target)
        for v in (from_arrow(s, source) for s in encoded.dictionary)
    ]
    return pa.array(results, target).take(encoded.indices)


def from_arrow(scalar: pa.Scalar, type_: pa.DataType) -> Any:
    """A value in the plain Python form of `algebra/expressions.py`."""
    kind = kind_of(type_)
    if not scalar.is_valid:
        return None
    if kind in (Kind.TIMESTAMP, Kind.DURATION):
        return scalar.cast(pa.int64()).as_py()
    if kind is Kind.DATE:
        return scalar.cast(pa.int32()).as_py()
    return scalar.as_py()


def to_arrow(value: Any, type_: pa.DataType) -> Any:
    """The inverse of `from_arrow`, as something that `pa.array` takes for the type."""
    if value is None:
        return None
    if kind_of(type_) in (Kind.TIMESTAMP, Kind.DURATION):
        return pa.scalar(int(value), pa.int64()).cast(type_).as_py()
    if kind_of(type_) is Kind.DATE:
        return pa.scalar(int(value), pa.int32()).cast(type_).as_py()
    return value


def _by_value(function: Callable[[str], str], fast: Callable[[pa.Array], pa.Array]) -> Any:
    """Case mapping: Arrow's own for ASCII, Python's full mapping where one character becomes two."""

    def apply(call: Call, args: list[pa.Array]) -> pa.Array:
        if pc.all(pc.string_is_ascii(args[0]), min_count=0).as_py() is not False:
            return fast(args[0])
        return distinct(args[0], function, pa.string(), pa.string())

    return apply


def _substring(call: Call, args: list[pa.Array]) -> pa.Array:
    first, length = call.args[1], call.args[2]
    if isinstance(first, Literal) and isinstance(length, Literal):
        return distinct(
            args[0],
            lambda text: (
                substring(text, first.value, length.value)
                if first.value is not None and length.value is not None
                else None
            ),
            pa.string(),
            pa.string(),
        )
    columns = zip(*(a.to_pylist() for a in args), strict=True)
    return pa.array([None if None in row else substring(*row) for row in columns], pa.string())


def substring(text: str, start: int, length: int) -> str:
    """1-based, negative from the end; a start before the text still uses up length."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    stop = first + length
    return text[max(first, 0) : stop] if stop > max(first, 0) else ""


def _concat(call: Call, args: list[pa.Array]) -> pa.Array:
    if len(args) == 1:
        return args[0]
    return pc.binary_join_element_wise(*args, "", null_handling="emit_null")


def _escape(escapes: tuple[tuple[str, str], ...], nothing: str | None = None) -> Any:
    """Text as it can stand in XML; `nothing`: what stands for NULL."""
    special = f"[{''.join(character for character, _ in escapes)}]|{NOT_IN_XML}"

    def apply(call: Call, args: list[pa.Array]) -> pa.Array:
        texts = args[0] if nothing is None else pc.fill_null(args[0], nothing)
        if not pc.any(pc.match_substring_regex(texts, special), min_count=0).as_py():
            return texts
        for character, escape in escapes:
            texts = pc.replace_substring(texts, character, escape)
        return pc.replace_substring_regex(texts, NOT_IN_XML, REPLACEMENT)

    return apply


def _content(call: Call, args: list[pa.Array]) -> pa.Array:
    """Documents as they are, other texts escaped."""
    markup = pc.starts_with(pc.fill_null(args[0], ""), "<")
    return pc.if_else(markup, args[0], _TEXT(call, args))


def _replace(call: Call, args: list[pa.Array]) -> pa.Array:
    _, search, replacement = (getattr(a, "value", None) for a in call.args)
    if search is None or replacement is None:
        return pa.nulls(len(args[0]), pa.string())
    if search == "":
        return args[0]
    return pc.replace_substring(args[0], search, replacement)


def _regexp_like(call: Call, args: list[pa.Array]) -> pa.Array:
    pattern = getattr(call.args[1], "value", None)
    if pattern is None:
        return pa.nulls(len(args[0]), pa.bool_())
    return pc.match_substring_regex(args[0], pattern)


def _get_field(call: Call, args: list[pa.Array]) -> pa.Array:
    return pc.struct_field(args[0], [getattr(call.args[1], "value", None)])


def _get_item(call: Call, args: list[pa.Array]) -> pa.Array:
    key = getattr(call.args[1], "value", None)
    if key is None:
        return pa.nulls(len(args[0]), call.type)
    if pa.types.is_map(args[0].type):
        wanted = pa.scalar(key, args[0].type.key_type)
        return pc.map_lookup(args[0], wanted, "first").cast(call.type)
    lengths = pc.fill_null(pc.list_value_length(args[0]), 0).to_numpy(zero_copy_only=False)
    present = (lengths > key) & (key >= 0)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(lengths) else lengths
    indices = pa.array(np.where(present, starts + max(key, 0), 0), pa.int64(), mask=~present)
    return args[0].flatten().take(indices).cast(call.type)


_SPACE = " "
_TEXT = _escape(TEXT_ESCAPES, "")
_FUNCTIONS: dict[str, Callable[[Call, list[pa.Array]], Any]] = {
    "upper": _by_value(str.upper, pc.ascii_upper),
    "lower": _by_value(str.lower, pc.ascii_lower),
    "trim": lambda call, args: pc.utf8_trim(args[0], characters=_SPACE),
    "ltrim": lambda call, args: pc.utf8_ltrim(args[0], characters=_SPACE),
    "rtrim": lambda call, args: pc.utf8_rtrim(args[0], characters=_SPACE),
    "reverse": lambda call, args: pc.utf8_reverse(args[0]),
    "substring": _substring,
    "concat": _concat,
    "xml": _concat,
    "xml_escape": _escape(ATTRIBUTE_ESCAPES),
    "xml_text": _TEXT,
    "xml_attribute": _escape(ATTRIBUTE_ESCAPES, ""),
    "xml_content": _content,
    "replace": _replace,
    "regexp_like": _regexp_like,
    "get_field": _get_field,
    "get_item": _get_item,
}
