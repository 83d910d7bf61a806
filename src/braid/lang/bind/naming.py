"""The names of results without AS."""

from __future__ import annotations

from braid.algebra.documents import RESULT
from braid.lang.parse import syntax


def default_name(expression: syntax.Scalar, position: int) -> str:
    """The name of a result without AS.

    An attribute keeps its name as written, a field its own. The name of a call is the function and
    its attribute (`max(Price)` is `max_Price`, `count(*)` is `count`). An element is `result`, the
    name that blocks read. Any other result is named after its position (`col3`).
    """
    match expression:
        case syntax.Name(name=name):
            return name
        case syntax.Field(name=ident):
            return ident.name
        case syntax.Dur():
            return "dur"
        case syntax.Markup():
            return RESULT
        case syntax.Apply(function=function, args=(syntax.Name(name=name), *_)):
            return f"{function.name.lower()}_{name}"
        case syntax.Apply(function=function):
            return function.name.lower()
        case _:
            return f"col{position}"


def relational_name(expression: syntax.Scalar, position: int) -> str:
    """The same where names may have a prefix of the input: `sum(C.size)` is `sum_size`."""
    match expression:
        case syntax.Apply(function=function, args=(syntax.Field(name=ident), *_)):
            return f"{function.name.lower()}_{ident.name}"
        case _:
            return default_name(expression, position)
