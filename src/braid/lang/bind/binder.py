"""Streams: syntax -> algebra, with all checks of the operators' names, types and schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from braid.algebra import nodes
from braid.algebra.expressions import TRUE, Call, Duration, Expression, Ref, Source, walk
from braid.algebra.functions import UDF_PREFIX, is_vector
from braid.algebra.queries import Output
from braid.algebra.schema import Attribute, Schema
from braid.algebra.types import Kind, common_type, sql_name
from braid.lang.bind.aggregates import bind_aggregates
from braid.lang.bind.casts import NUMERIC, coerce, kind
from braid.lang.bind.constants import Constants
from braid.lang.bind.detection import bind_detection
from braid.lang.bind.elements import with_subtrees
from braid.lang.bind.expressions import Expressions
from braid.lang.bind.naming import default_name
from braid.lang.bind.relations import as_relational, bind_relational, windowed
from braid.lang.bind.scopes import (
    Bound,
    FoldScope,
    InputScope,
    NextScope,
    Scope,
    fold_aliases,
    next_names,
)
from braid.lang.bind.tables import Table
from braid.lang.bind.user_functions import Functions
from braid.lang.bind.xml_binder import bind_documents
from braid.lang.parse import syntax
from braid.lang.parse.problems import At, Gather, Problem, listing
from braid.lang.parse.xml_syntax import Documents

#: Returns the stream or view of a name, or raises the Problem that it doesn't exist.
Lookup = Callable[[syntax.Ident], Bound | Table]


class Binder:
    """The binder of one query. `outputs` collects the sub-queries that publish, in order.

    `warnings` are codes and messages about a valid query.
    """

    def __init__(self, lookup: Lookup, functions: Functions, constants: Constants) -> None:
        self._lookup = lookup
        self.functions = functions
        self.constants = constants
        self._published: dict[str, nodes.Read] = {}
        self.outputs: list[Output] = []
        self.warnings: list[tuple[str, str]] = []
        #: For the place of each predicate, the scope of its names and its bound form.
        self.predicates: dict[At, tuple[Scope, Expression]] = {}

    def query(self, query: syntax.AnyQuery) -> tuple[Output, ...]:
        """All outputs of a query, its own last."""
        bound = _as_stream(self.bound(query))
        publish = query.publish
        if publish is not None and publish.name in self._published:
            raise _published_twice(publish)
        name = publish.name if publish else None
        return (*self.outputs, Output(bound.node, name))

    def stream(self, node: syntax.Stream) -> Bound:
        """A stream. A relation becomes Istream of it."""
        return _as_stream(self.either(node))

    def either(self, node: syntax.Stream) -> Bound | Table:
        return _BINDERS[type(node)](self, node)

    def bound(self, query: syntax.AnyQuery) -> Bound | Table:
        """The stream or relation of a query, whether or not the query publishes it."""
        if isinstance(query, syntax.Relational):
            return bind_relational(self, query)
        if isinstance(query, syntax.Detect):
            return bind_detection(self, query)
        input_ = self.either(query.stream)
        if isinstance(input_, Table):
            return bind_relational(self, as_relational(query), input_)
        return self._select(query, input_)

    # --- sources, sub-queries, projection ---

    def _source(self, node: syntax.Source) -> Bound | Table:
        name = node.name.name
        read = self._published.get(name)
        return Bound(read, name) if read is not None else self._lookup(node.name)

    def _windowed(self, node: syntax.Windowed) -> Table:
        return windowed(self, node)

    def _subquery(self, query: syntax.AnyQuery) -> Bound | Table:
        found = self.bound(query)
        if query.publish is None:
            return found
        bound = _as_stream(found)
        name = query.publish.name
        if name in self._published:
            raise _published_twice(query.publish)
        self.outputs.append(Output(bound.node, name))
        read = nodes.Read(name, bound.schema, bound.node.unit)
        self._published[name] = read
        # The published stream is Istream of the relation; the outer query reads the relation.
        return found if isinstance(found, Table) else Bound(read, name, bound.aliases)

    def _select(self, query: syntax.Query, input_: Bound) -> Bound:
        items = query.items
        if items is None or (len(items) == 1 and isinstance(items[0], syntax.Everything)):
            return input_
        binder = self._expressions(InputScope(input_, "SELECT"))
        found: dict[str, Expression] = {}
        gather = Gather()
        keeps_all = False
        for position, item in enumerate(items, 1):
            with gather:
                keeps_all |= isinstance(item, syntax.Everything)
                for name, expression in _columns(item, position, input_, binder):
                    if name in found:
                        hint = "give each its own name with AS"
                        raise Problem("E108", f"SELECT has {name!r} twice", item.at, hint)
                    found[name] = expression
        gather.check()
        node = nodes.Project(with_subtrees(input_.node, found.values()), tuple(found.items()))
        kept = {a: t for a, t in input_.aliases.items() if a not in found} if keeps_all else {}
        return Bound(node, "the sub-query", kept)

    # --- unary ---

    def _filter(self, node: syntax.Filter) -> Bound:
        input_ = self.stream(node.input)
        predicate = self.predicate(InputScope(input_, "FILTER"), node.predicate)
        node_ = nodes.Select(input_.node, predicate)
        return Bound(node_, input_.label, input_.aliases, input_.times, input_.sequence)

    def _sametime(self, node: syntax.SameTime) -> Bound:
        input_ = self.stream(node.input)
        binder = self._expressions(InputScope(input_, "SAMETIME"))
        aggregates = bind_aggregates(node.aggregates, input_, binder)
        return Bound(nodes.SameTime(input_.node, aggregates), "the result of SAMETIME")

    # --- binary ---

    def _inputs(
        self, node: syntax.Next | syntax.Fold | syntax.Union, word: str
    ) -> tuple[Bound, Bound]:
        gather = Gather()
        with gather:
            first = self.stream(node.first)
        with gather:
            second = self.stream(node.second)
        gather.check()
        if first.node.unit != second.node.unit:
            message = f"the inputs of {word} have different clocks: one counts ticks"
            raise Problem("E120", message, node.at, "a stream with an integer time counts ticks")
        return first, second

    def _next(self, node: syntax.Next) -> Bound:
        first, second = self._inputs(node, "NEXT")
        gather = Gather()
        with gather:
            names, aliases = next_names(first, second, node.at)
        predicate: Expression = TRUE
        with gather:
            predicate = self.predicate(NextScope(first, second), node.predicate)
        gather.check()
        sequence = nodes.Sequence(first.node, second.node, predicate, names)
        return Bound(sequence, "the result of NEXT", aliases)

    def _fold(self, node: syntax.Fold) -> Bound:
        first, second = self._inputs(node, "FOLD")
        _check_inclusion(first, second, node.at)
        items = _named(node.aggregates)
        scope = FoldScope(first, second, _last(first, second, items), frozenset(items))
        predicate: Expression = TRUE
        rebind: Expression = TRUE
        aggregates: tuple[tuple[str, Expression], ...] = ()
        gather = Gather()
        with gather:
            predicate = self.predicate(scope, node.predicate)
        with gather:
            rebind = self.predicate(scope, node.rebind)
        with gather:
            aggregates = self._fold_aggregates(scope, items)
        with gather:
            _check_fold_names(first, second, items, node.at)
        gather.check()
        iterate = nodes.Iterate(first.node, second.node, predicate, rebind, aggregates)
        aliases = fold_aliases(first, second, iterate.schema.names)
        return Bound(iterate, "the result of FOLD", aliases)

    def _fold_aggregates(
        self, scope: FoldScope, items: dict[str, syntax.Item]
    ) -> tuple[tuple[str, Expression], ...]:
        binder = self._expressions(scope)
        found: list[tuple[str, Expression]] = []
        gather = Gather()
        for name, item in items.items():
            with gather:
                value = binder.value(item.expression)
                _check_one_source(value, scope, item.expression.at)
                found.append((name, _as_started(name, value, scope.first.schema, item)))
        gather.check()
        return tuple(found)

    def _union(self, node: syntax.Union) -> Bound:
        first, second = self._inputs(node, "UNION")
        ours, theirs = first.schema, second.schema
        if set(ours.names) != set(theirs.names):
            raise _different(ours, theirs, node.at)
        types = {}
        for attribute in ours:
            type_ = common_type(attribute.type, theirs.type_of(attribute.name))
            if type_ is None:
                raise _different(ours, theirs, node.at)
            types[attribute.name] = type_
        left, right = (_in_shape(side.node, types) for side in (first, second))
        return Bound(nodes.Union(left, right), "the result of UNION", first.aliases)

    # --- predicates ---

    def _expressions(self, scope: Scope) -> Expressions:
        return Expressions(scope, self.functions, self.constants)

    def predicate(self, scope: Scope, node: syntax.Scalar | None) -> Expression:
        """The predicate of FILTER, NEXT or FOLD."""
        if node is None:
            return TRUE
        predicate = self._expressions(scope).predicate(node)
        if not isinstance(scope, InputScope):
            _check_one_source(predicate, scope, node.at)
        self.predicates[node.at] = (scope, predicate)
        return predicate


def _as_stream(bound: Bound | Table) -> Bound:
    return bound.stream if isinstance(bound, Table) else bound


def _columns(
    item: syntax.Item | syntax.Everything, position: int, input_: Bound, binder: Expressions
) -> Iterable[tuple[str, Expression]]:
    if isinstance(item, syntax.Everything):
        return [(a.name, Ref(Source.INPUT, a.name, a.type)) for a in input_.schema]
    name = item.name.name if item.name else default_name(item.expression, position)
    return [(name, binder.value(item.expression))]


def _published_twice(name: syntax.Ident) -> Problem:
    return Problem("E132", f"this query publishes {name.name!r} twice", name.at)


def _check_one_source(expression: Expression, scope: Scope, at: At) -> None:
    """Refuse functions that build strings from several streams: they run outside the pattern."""
    running = scope.updated if isinstance(scope, FoldScope) else frozenset()
    for part in walk(expression):
        if not isinstance(part, Call) or not is_vector(part):
            continue
        function = part.function.removeprefix(UDF_PREFIX)
        refs = [e for e in walk(part) if isinstance(e, Ref)]
        if len({r.source for r in refs}) > 1 or any(isinstance(e, Duration) for e in walk(part)):
            hint = "move it to SELECT, above or below the pattern"
            message = f"{function} cannot combine values of several events here"
            raise Problem("E118", message, at, hint)
        for ref in refs:
            if ref.source is Source.LAST and ref.name in running:
                hint = "compute it in the SELECT above the FOLD"
                message = f"{function} cannot be applied to the running value $.{ref.name}"
                raise Problem("E124", message, at, hint)


# --- FOLD ---


def _check_inclusion(first: Bound, second: Bound, at: At) -> None:
    ours = first.schema
    missing = [a.name for a in second.schema if a.name not in ours]
    if missing:
        hint = f"the first input has {listing(ours.names)}"
        message = f"the first input of FOLD lacks attributes of the second: {listing(missing)}"
        raise Problem("E109", message, at, hint)
    for attribute in second.schema:
        type_ = ours.type_of(attribute.name)
        if type_ != attribute.type:
            types = f"{sql_name(type_)} in the first, {sql_name(attribute.type)} in the second"
            message = f"the inputs of FOLD have different types of {attribute.name!r}: {types}"
            raise Problem("E109", message, at, "cast one of them in a sub-query")


def _named(items: tuple[syntax.Item | syntax.Everything, ...]) -> dict[str, syntax.Item]:
    named: dict[str, syntax.Item] = {}
    for item in items:
        if not isinstance(item, syntax.Item) or item.name is None:
            hint = "write e.g. $.cnt + 1 AS cnt"
            raise Problem("E116", "an aggregate of FOLD needs a name", item.at, hint)
        if item.name.name in named:
            raise Problem("E108", f"FOLD has {item.name.name!r} twice", item.name.at)
        named[item.name.name] = item
    return named


def _last(first: Bound, second: Bound, items: dict[str, syntax.Item]) -> Schema:
    """The attributes that `$.` can refer to, as in `nodes.Iterate.last_schema`."""
    known = [
        Attribute(name, first.schema.type_of(name))
        for name in items
        if name in first.schema and name not in second.schema
    ]
    return Schema((*second.schema, *known))


def _check_fold_names(first: Bound, second: Bound, items: dict[str, syntax.Item], at: At) -> None:
    """The result's names must be distinct after the common ones receive their suffix."""
    renamed = {f"{a.name}_1" for a in second.schema}
    hint = "rename in a sub-query: (SELECT Price AS first_price, ... FROM ...)"
    clash = [name for name in first.schema.names if name in renamed]
    if clash:
        raise Problem("E108", f"FOLD would have {listing(clash)} twice", at, hint)
    for name, item in items.items():
        if name in renamed and item.name is not None:
            message = f"{name!r} is already the name of the first event's {name[:-2]!r}"
            raise Problem("E108", message, item.name.at, "choose another name")


def _as_started(name: str, value: Expression, first: Schema, item: syntax.Item) -> Expression:
    """An aggregate in the type of its start in the first input."""
    if name not in first or first.type_of(name) == value.type:
        return value
    type_ = first.type_of(name)
    of, to = kind(value.type), kind(type_)
    keeps = (
        of is to and of in NUMERIC and (of is not Kind.DECIMAL or value.type.scale == type_.scale)
    )
    if keeps or (of is Kind.INTEGER and to in NUMERIC):
        return coerce(value, type_)
    hint = "start it with that type in the first input, e.g. 0.0 AS total, or CAST it"
    message = f"{name!r} starts as {sql_name(type_)} and becomes {sql_name(value.type)}"
    raise Problem("E123", message, item.at, hint)


# --- UNION ---


def _in_shape(node: nodes.Node, types: dict[str, Any]) -> nodes.Node:
    """The input with its attributes in the common order and types."""
    schema = node.schema
    if schema.names == tuple(types) and all(a.type == types[a.name] for a in schema):
        return node
    items = ((n, Ref(Source.INPUT, n, schema.type_of(n))) for n in types)
    return nodes.Project(node, tuple((n, coerce(ref, types[n])) for n, ref in items))


def _different(ours: Schema, theirs: Schema, at: At) -> Problem:
    left, right = (
        ", ".join(f"{a.name} {sql_name(a.type)}" for a in schema) for schema in (ours, theirs)
    )
    hint = f"first: {left}; second: {right}"
    return Problem("E119", "the inputs of UNION have different attributes", at, hint)


_BINDERS: dict[type, Callable[[Binder, Any], Bound | Table]] = {
    syntax.Source: Binder._source,
    syntax.Query: Binder._subquery,
    syntax.Relational: Binder._subquery,
    syntax.Detect: Binder._subquery,
    syntax.Windowed: Binder._windowed,
    syntax.Filter: Binder._filter,
    syntax.SameTime: Binder._sametime,
    syntax.Next: Binder._next,
    syntax.Fold: Binder._fold,
    syntax.Union: Binder._union,
    Documents: bind_documents,
}
