"""Aggregates, mainly of SAMETIME: syntax -> `algebra.nodes.Aggregate`.

`ARG_MAX(x)` alone stands for the whole event with the greatest x: one `max_by` for each
attribute of the input.
"""

from __future__ import annotations

import pyarrow as pa

from braid.algebra.expressions import Expression, Ref, Source
from braid.algebra.functions import AGGREGATES
from braid.algebra.nodes import Aggregate
from braid.algebra.types import BIGINT, DOUBLE, MAX_KERNEL_DIGITS, Kind, sql_name
from braid.lang.bind.calls import count_args
from braid.lang.bind.casts import NUMERIC, is_null, kind, widen
from braid.lang.bind.expressions import Expressions
from braid.lang.bind.naming import default_name
from braid.lang.bind.scopes import Bound
from braid.lang.parse import syntax
from braid.lang.parse.problems import Gather, Problem, alternatives

_WHOLE_EVENT = {"arg_max": "max_by", "arg_min": "min_by"}
_KNOWN = (*sorted(AGGREGATES), *_WHOLE_EVENT)


def bind_aggregates(
    items: tuple[syntax.Item | syntax.Everything, ...], input_: Bound, binder: Expressions
) -> tuple[Aggregate, ...]:
    """All aggregates of one SAMETIME; names must be distinct."""
    found: list[Aggregate] = []
    gather = Gather()
    for item in items:
        with gather:
            new = _bind(item, input_, binder)
            taken = {a.name for a in found}
            for aggregate in new:
                if aggregate.name in taken:
                    hint = "give each its own name with AS"
                    raise Problem("E108", f"{aggregate.name!r} is there twice", item.at, hint)
            found.extend(new)
    gather.check()
    return tuple(found)


def _bind(
    item: syntax.Item | syntax.Everything, input_: Bound, binder: Expressions
) -> tuple[Aggregate, ...]:
    call = item.expression if isinstance(item, syntax.Item) else None
    if not isinstance(call, syntax.Apply) or not isinstance(item, syntax.Item):
        hint = f"aggregates: {', '.join(_KNOWN)}; compute with their results in SELECT"
        raise Problem("E117", "SAMETIME takes aggregates only", item.at, hint)
    function = call.function.name.lower()
    if function in _WHOLE_EVENT:
        return _whole_event(_WHOLE_EVENT[function], call, item, input_, binder)
    if function not in AGGREGATES:
        hint = alternatives("aggregates", function, _KNOWN)
        message = f"{call.function.name} is not an aggregate"
        raise Problem("E117", message, call.function.at, hint)
    args, type_ = bind_arguments(function, call, binder)
    name = item.name.name if item.name else default_name(call, 0)
    return (Aggregate(name, function, args, call.distinct, type_),)


def _whole_event(
    function: str, call: syntax.Apply, item: syntax.Item, input_: Bound, binder: Expressions
) -> tuple[Aggregate, ...]:
    if item.name is not None:
        hint = f"for one attribute write {function}(attribute, ...) AS {item.name.name}"
        message = f"{call.function.name} gives a whole event and takes no AS"
        raise Problem("E117", message, item.at, hint)
    count_args(call, 1)
    by = _orderable(call, call.args[0], binder)
    attributes = ((a.name, Ref(Source.INPUT, a.name, a.type)) for a in input_.schema)
    return tuple(Aggregate(n, function, (ref, by), False, ref.type) for n, ref in attributes)


def bind_arguments(
    function: str, call: syntax.Apply, binder: Expressions
) -> tuple[tuple[Expression, ...], pa.DataType]:
    """The argument of an aggregate, and the type of its result."""
    if call.star or (function == "count" and not call.args):
        if function != "count":
            raise Problem("E117", f"{call.function.name}(*) has no meaning", call.at)
        return (), BIGINT
    if call.distinct and function not in ("count", "sum", "avg"):
        raise Problem("E117", f"{call.function.name} takes no DISTINCT", call.at)
    count_args(call, 2 if function in ("max_by", "min_by") else 1)
    match function:
        case "count":
            value = _orderable(call, call.args[0], binder) if call.distinct else None
            return (value or binder.value(call.args[0]),), BIGINT
        case "sum" | "avg":
            number = _number(call, binder)
            return (number,), DOUBLE if function == "avg" else _sum_type(number.type)
        case "min" | "max":
            value = _orderable(call, call.args[0], binder)
            return (value,), value.type
        case _:
            chosen, by = binder.value(call.args[0]), _orderable(call, call.args[1], binder)
            return (chosen, by), chosen.type


def _number(call: syntax.Apply, binder: Expressions) -> Expression:
    bound = binder.value(call.args[0])
    if kind(bound.type) not in NUMERIC:
        message = f"{call.function.name} takes a number, not {sql_name(bound.type)}"
        raise Problem("E110", message, call.args[0].at)
    return widen(bound)


def _sum_type(type_: pa.DataType) -> pa.DataType:
    return pa.decimal128(MAX_KERNEL_DIGITS, type_.scale) if pa.types.is_decimal(type_) else type_


def _orderable(call: syntax.Apply, node: syntax.Scalar, binder: Expressions) -> Expression:
    bound = binder.value(node)
    if is_null(bound) or kind(bound.type) is Kind.OPAQUE:
        message = f"{call.function.name} cannot compare values of {sql_name(bound.type)}"
        raise Problem("E110", message, node.at)
    return bound
