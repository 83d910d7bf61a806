"""The value of an expression: three-valued, by the definitions in `lang/bind/user_functions.py`.

`AND`, `OR`, `CASE` and `COALESCE` look at all of their arguments here: no function of the
language has an effect or fails, so that what is evaluated when cannot be seen.
"""

from __future__ import annotations

from typing import Any

from braid.algebra.expressions import Call, Duration, Expression, Literal, Ref
from braid.algebra.functions import UDF_PREFIX
from braid.reference.events import Bindings
from braid.reference.functions import apply


def value(expression: Expression, bindings: Bindings) -> Any:
    """The value of `expression` where its references have the values in `bindings`."""
    match expression:
        case Literal():
            return expression.value
        case Ref():
            return bindings.rows[expression.source][expression.name]
        case Duration():
            return bindings.duration
        case Call():
            arguments = [value(arg, bindings) for arg in expression.args]
            if expression.function.startswith(UDF_PREFIX):
                return _user_defined(expression, arguments, bindings)
            return apply(expression, arguments)


def holds(predicate: Expression, bindings: Bindings) -> bool:
    """Whether a predicate is true; false and unknown are the same to every operator."""
    return value(predicate, bindings) is True


def _user_defined(call: Call, arguments: list[Any], bindings: Bindings) -> Any:
    """A user-defined function sees NULL as None; one that raises has no value: NULL."""
    function = bindings.udfs[call.function.removeprefix(UDF_PREFIX)]
    try:
        return function(*arguments)
    except Exception:  # whatever a user's function raises, the stream goes on
        return None
