"""The functions of the language: their names, arity and result types.

What each one computes is defined once in `reference/functions.py` and implemented by the
kernels' code generator (`KERNEL` functions) or by vectorised Arrow functions (the others).
The binder casts arguments before it builds a call, so that every implementation sees exactly
the types given here. Where Spark SQL in ANSI mode would raise (overflow, division by zero, a
cast that fails), the result is NULL: one bad event must not stop a pipeline.

| function | arguments | result |
| -------- | --------- | ------ |
| add sub mul | both BIGINT, both DOUBLE or both DECIMAL | the same (DECIMAL: see binder); NULL on overflow |
| add sub | TIMESTAMP and DURATION; DURATION and DURATION; sub of two TIMESTAMPs | time arithmetic |
| div | both DOUBLE | DOUBLE; NULL if the divisor is 0 |
| int_div mod | both BIGINT (mod also DOUBLE) | truncating; NULL if the divisor is 0 |
| neg abs sign | BIGINT, DOUBLE, DECIMAL, DURATION | the same |
| eq ne lt le gt ge eq_null_safe | one common type (KERNEL kinds) | BOOLEAN; NaN = NaN, NaN above all |
| and or | one or more BOOLEAN | BOOLEAN |
| not is_null is_nan | one | BOOLEAN |
| in | x, then literals of x's type | BOOLEAN, SQL's NULL rules |
| case | cond, value, cond, value, ..., else | the values' common type |
| coalesce greatest least | one or more of a common type | that type; greatest/least skip NULLs |
| cast | one | the call's type |
| ceil floor | DOUBLE | BIGINT |
| round | DOUBLE, BIGINT literal digits | DOUBLE (half away from zero) |
| sqrt exp ln log10 log2 | DOUBLE | DOUBLE; NULL outside the domain of ln, log10, log2; sqrt(<0) is NaN |
| pow | DOUBLE, DOUBLE | DOUBLE |
| length | STRING | BIGINT, characters |
| contains starts_with ends_with | STRING, STRING | BOOLEAN |
| like | STRING, STRING pattern (`%`, `_`, escape backslash) | BOOLEAN |
| upper lower trim ltrim rtrim reverse | STRING | STRING |
| substring | STRING, BIGINT from (1-based, negative from the end), BIGINT length | STRING |
| concat | STRING ... | STRING; NULL if one is |
| xml_escape | STRING | STRING: as it can stand in XML; what no XML can hold is U+FFFD |
| xml_text xml_attribute | STRING | the same for one of both places; empty if NULL |
| xml_content | STRING | an XML document as it is, anything else as xml_text |
| xml | STRING ... | STRING: the pieces of an element constructor, one after the other |
| replace | STRING, STRING literal, STRING literal | STRING |
| regexp_like | STRING, STRING literal | BOOLEAN |
| year month day hour minute second dayofweek | TIMESTAMP or DATE | BIGINT (UTC); Sunday is 1 |
| get_field | STRUCT, STRING literal | the field's type |
| get_item | ARRAY and BIGINT literal (0-based) or MAP and literal key | the element's; NULL if absent |
| udf:NAME | as registered | as registered |
"""

from __future__ import annotations

import pyarrow as pa

from braid.algebra.expressions import Call, Expression
from braid.algebra.types import Kind, kind_of

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe"})

#: Functions that the code generator turns into compiled code; they may combine both inputs.
KERNEL = frozenset(
    {
        "add", "sub", "mul", "div", "int_div", "mod", "neg", "abs", "sign",
        *COMPARISONS,
        "and", "or", "not", "is_null", "is_nan", "in", "case", "coalesce", "greatest", "least",
        "ceil", "floor", "round", "sqrt", "exp", "ln", "log10", "log2", "pow",
        "length", "contains", "starts_with", "ends_with", "like",
        "year", "month", "day", "hour", "minute", "second", "dayofweek",
    }
)  # fmt: skip

#: Functions that build strings or take nested values apart: over the rows of one stream only.
VECTOR = frozenset(
    {
        "upper", "lower", "trim", "ltrim", "rtrim", "reverse", "substring", "concat", "replace",
        "regexp_like", "get_field", "get_item",
        "xml", "xml_escape", "xml_text", "xml_attribute", "xml_content",
    }
)  # fmt: skip

UDF_PREFIX = "udf:"

#: Aggregates of SAMETIME.
AGGREGATES = frozenset({"count", "sum", "avg", "min", "max", "max_by", "min_by"})


def is_vector(expression: Expression) -> bool:
    """Whether the outermost function runs over whole columns, and not inside a kernel."""
    if not isinstance(expression, Call):
        return False
    if expression.function == "cast":
        return _is_vector_cast(expression.args[0].type, expression.type)
    return expression.function in VECTOR or expression.function.startswith(UDF_PREFIX)


def _is_vector_cast(source: pa.DataType, target: pa.DataType) -> bool:
    a, b = kind_of(source), kind_of(target)
    if a is Kind.NULL or source == target:
        return False
    if Kind.OPAQUE in (a, b) or (a, b) == (Kind.FLOAT, Kind.DECIMAL):
        return True
    return (Kind.STRING in (a, b) and a is not b) or (
        Kind.TIMESTAMP in (a, b) and Kind.FLOAT in (a, b)
    )
