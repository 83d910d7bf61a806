"""SELECT and HAVING over groups: every column is a key of GROUP BY or inside an aggregate."""

from __future__ import annotations

from braid.algebra.expressions import Expression, Literal, Parameter, Ref, Source, walk
from braid.algebra.nodes import Aggregate
from braid.algebra.relations import aggregate_name, key_name
from braid.algebra.types import Kind, sql_name
from braid.lang.bind.aggregates import bind_arguments
from braid.lang.bind.casts import kind
from braid.lang.bind.constants import Constants
from braid.lang.bind.tables import FromScope, QualifiedExpressions, is_aggregate
from braid.lang.bind.user_functions import Functions
from braid.lang.parse import syntax
from braid.lang.parse.problems import At, Gather, Problem, Problems

_KNOWN = ("count", "sum", "avg", "min", "max")


class GroupedExpressions(QualifiedExpressions):
    """A binder of expressions over groups; `aggregates` collects the aggregates of each group."""

    def __init__(
        self,
        scope: FromScope,
        functions: Functions,
        constants: Constants,
        keys: tuple[Expression, ...],
    ) -> None:
        super().__init__(scope, functions, constants, "SELECT")
        self.aggregates: list[Aggregate] = []
        self._keys = keys
        self._computed = any(not isinstance(key, Ref) for key in keys)
        self._rows = QualifiedExpressions(scope, functions, constants, "GROUP BY")
        self._arguments = QualifiedExpressions(scope, functions, constants, "an aggregate")

    def bind(self, node: syntax.Scalar) -> Expression:
        if isinstance(node, syntax.Apply) and is_aggregate(node, self.functions):
            return self._aggregate(node)
        column = self.qualified(node)
        if column is None and isinstance(node, syntax.Name):
            column = self._rows.bind(node)
        if column is not None:
            return self._key(column) or self._not_grouped(node)
        return self._computed_key(node) or super().bind(node)

    def _key(self, bound: Expression) -> Expression | None:
        for number, key in enumerate(self._keys):
            if key == bound:
                return Ref(Source.INPUT, key_name(number), key.type)
        return None

    def _computed_key(self, node: syntax.Scalar) -> Expression | None:
        """A key that is an expression, repeated as in GROUP BY."""
        if not self._computed or isinstance(node, syntax.Number | syntax.Text | syntax.Constant):
            return None
        try:
            return self._key(self._rows.bind(node))
        except (Problem, Problems):
            return None  # the binder of its parts reports the error

    def _not_grouped(self, node: syntax.Scalar) -> Expression:
        match node:
            case syntax.Name(name=name) | syntax.Field(name=syntax.Ident(name=name)):
                shown = name
        hint = "add it to GROUP BY, or aggregate it, e.g. max"
        message = f"{shown!r} is neither in GROUP BY nor in an aggregate"
        raise Problem("E175", message, node.at, hint)

    def _aggregate(self, call: syntax.Apply) -> Expression:
        function = call.function.name.lower()
        if function not in _KNOWN:
            hint = f"aggregates of groups: {', '.join(_KNOWN)}"
            message = f"{call.function.name} is an aggregate of SAMETIME only"
            raise Problem("E117", message, call.function.at, hint)
        if call.distinct and function != "count":
            hint = "select distinct rows in a sub-query"
            raise Problem("E117", f"{call.function.name} takes no DISTINCT", call.at, hint)
        args, type_ = bind_arguments(function, call, self._arguments)
        made = Aggregate(aggregate_name(len(self.aggregates)), function, args, call.distinct, type_)
        return self._shared(made)

    def _shared(self, made: Aggregate) -> Expression:
        """The same aggregate twice is one, unless another text can have a different constant in it."""
        for known in self.aggregates:
            same = (known.function, known.args, known.distinct) == (
                made.function,
                made.args,
                made.distinct,
            )
            if same and not any(map(_has_constant, made.args)):
                return Ref(Source.INPUT, known.name, known.type)
        self.aggregates.append(made)
        return Ref(Source.INPUT, made.name, made.type)


def _has_constant(expression: Expression) -> bool:
    return any(isinstance(part, Literal | Parameter) for part in walk(expression))


def bind_keys(
    keys: tuple[syntax.Scalar, ...], binder: QualifiedExpressions
) -> tuple[Expression, ...]:
    """The keys of GROUP BY, each once."""
    found: dict[Expression, None] = {}
    gather = Gather()
    for node in keys:
        with gather:
            key = binder.value(node)
            check_groupable(key.type, "GROUP BY", node.at)
            found.setdefault(key)
    gather.check()
    return tuple(found)


def check_groupable(type_: object, place: str, at: At) -> None:
    """Refuse types that have no equality."""
    if kind(type_) is Kind.OPAQUE:
        raise Problem("E110", f"{place} cannot compare values of {sql_name(type_)}", at)
