"""Relational queries: syntax -> algebra. Windows, joins, groups, and streams of relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.algebra.expressions import TRUE, Expression, Literal, Ref, Source
from braid.algebra.nodes import Aggregate
from braid.algebra.relations import (
    DistinctRows,
    GroupRows,
    Join,
    KeepRows,
    MapRows,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    all_columns,
    keeps_everything,
)
from braid.algebra.schema import TICKS
from braid.algebra.types import BIGINT, DURATION, Kind, sql_name
from braid.lang.bind.casts import coerce, kind, number
from braid.lang.bind.grouping import GroupedExpressions, bind_keys, check_groupable
from braid.lang.bind.naming import relational_name
from braid.lang.bind.scopes import Bound
from braid.lang.bind.tables import Entry, FromScope, QualifiedExpressions, Table, unknown_input
from braid.lang.parse import syntax
from braid.lang.parse.limits import MAX_WINDOW
from braid.lang.parse.parser import has_aggregate
from braid.lang.parse.problems import At, Gather, Problem, listing

if TYPE_CHECKING:
    from braid.lang.bind.binder import Binder

Items = tuple[tuple[str, Expression], ...]


def bind_relational(
    binder: Binder, query: syntax.Relational, bound: Bound | Table | None = None
) -> Bound | Table:
    """The relation of a query, or its stream if it has Istream, Dstream or Rstream.

    `bound` is its only input, if that is already bound.
    """
    return _RelationalBinder(binder, query, bound).bind()


def bind_join(binder: Binder, query: syntax.Relational) -> tuple[list[Entry], Expression]:
    """The inputs of FROM, and the conditions of WHERE on their combinations."""
    return _RelationalBinder(binder, query, None).inputs_and_predicate()


def as_relational(query: syntax.Query) -> syntax.Relational:
    """`SELECT items FROM x` where x is a relation."""
    only = syntax.Input(query.stream, None, None, query.stream.at)
    return syntax.Relational(
        query.items, False, None, (only,), None, (), None, query.publish, query.at
    )


def windowed(binder: Binder, node: syntax.Windowed) -> Table:
    """A stream in parentheses with its window."""
    input_ = syntax.Input(node.stream, node.window, None, node.stream.at)
    return _table(binder, input_, binder.either(node.stream))


# ---- inputs ------------------------------------------------------------------------------------


def _table(binder: Binder, input_: syntax.Input, bound: Bound | Table) -> Table:
    """An input as a relation: the window of a stream, or all of the stream."""
    window = input_.window
    if isinstance(bound, Table):
        if window is not None:
            hint = "a window stands on a stream: on Istream(...) of it, or below, on what it reads"
            message = f"{bound.stream.label} is a relation and takes no window"
            raise Problem("E176", message, input_.stream.at, hint)
        return bound
    return Table.of(_window(binder, input_, bound), bound.label, bound.aliases, bound.times)


def _window(binder: Binder, input_: syntax.Input, stream: Bound) -> Window:
    window = input_.window
    match window:
        case None | syntax.Window(kind="unbounded"):
            return Window(stream.node, WindowKind.UNBOUNDED)
        case syntax.Window(kind="now"):
            return Window(stream.node, WindowKind.NOW)
        case syntax.Window(kind="range"):
            return Window(stream.node, WindowKind.RANGE, _length(binder, window, stream))
    keys = tuple(_partition_key(key, input_, stream) for key in window.keys)
    size = _count(binder, window)
    return Window(stream.node, WindowKind.ROWS, size, tuple(dict.fromkeys(keys)), stream.sequence)


def _partition_key(key: syntax.Column, input_: syntax.Input, stream: Bound) -> str:
    """An attribute of the stream; its prefix may be the alias that follows the window."""
    label = _label(input_)
    if key.qualifier is not None and key.qualifier.name != label:
        known = [label] if label is not None else []
        raise unknown_input(key.qualifier.name, key.qualifier.at, known)
    name = syntax.Name(None, key.name.name, key.name.at)
    ref = stream.ref(Source.INPUT, name)
    check_groupable(ref.type, "PARTITION BY", key.at)
    return ref.name


def _label(input_: syntax.Input) -> str | None:
    """The label of an input: its alias, otherwise its own name."""
    if input_.alias is not None:
        return input_.alias.name
    stream = input_.stream
    while isinstance(stream, syntax.Windowed):
        stream = stream.stream
    return stream.name.name if isinstance(stream, syntax.Source) else None


def _count(binder: Binder, window: syntax.Window) -> Expression:
    """The size of a window of rows."""
    size = window.size
    if isinstance(size, syntax.Parameter):
        return _whole_parameter(binder, size, "a number of rows")
    assert isinstance(size, syntax.Number)
    literal = number(size)
    if literal.value < 1:
        raise Problem("E177", "a window has at least one row", size.at, "write e.g. [Rows 100]")
    _check_window(literal, size.at)
    return binder.constants.read("rows", size, literal)


def _length(binder: Binder, window: syntax.Window, stream: Bound) -> Expression:
    """The size of a window of time, in the units of the stream's clock."""
    counts_ticks = stream.node.unit == TICKS
    type_ = BIGINT if counts_ticks else DURATION
    match window.size:
        case syntax.Period() as period:
            if counts_ticks:
                hint = "its time column is an integer: write a number of ticks"
                raise Problem("E114", "this stream counts ticks, not seconds", period.at, hint)
            literal = Literal(period.microseconds, DURATION)
            _check_window(literal, period.at)
            return binder.constants.read("length", period, literal)
        case syntax.Number() as ticks:
            literal = number(ticks)
            if literal.value < 0:
                raise Problem("E177", "a window cannot have a negative length", ticks.at)
            _check_window(literal, ticks.at)
            return coerce(binder.constants.read("count", ticks, literal), type_)
        case syntax.Parameter() as parameter:
            declared = binder.constants.parameter(parameter)
            if kind(declared.type) is Kind.DURATION and not counts_ticks:
                return declared
            return coerce(_whole_parameter(binder, parameter, "a length of time"), type_)
    raise AssertionError("a window of time has a length")


def _check_window(literal: Literal, at: At) -> None:
    if literal.value > MAX_WINDOW:
        hint = "leave the window out, or write [Range Unbounded]"
        raise Problem("E177", "this window is longer than anything can last", at, hint)


def _whole_parameter(binder: Binder, node: syntax.Parameter, what: str) -> Expression:
    declared = binder.constants.parameter(node)
    if kind(declared.type) is not Kind.INTEGER:
        message = f":{node.name} is {sql_name(declared.type)}, which is not {what} here"
        raise Problem("E110", message, node.at)
    return coerce(declared, BIGINT)


# ---- queries -----------------------------------------------------------------------------------


class _RelationalBinder:
    """A binder of one query: its inputs, then its clauses. It reports the errors of all clauses."""

    def __init__(
        self, binder: Binder, query: syntax.Relational, bound: Bound | Table | None
    ) -> None:
        self._binder = binder
        self._query = query
        self._entries = self._bind_inputs(bound)
        self._scope = FromScope(self._entries, query.where)

    def bind(self) -> Bound | Table:
        query = self._query
        gather = Gather()
        predicate: Expression = TRUE
        with gather:
            if query.where is not None:
                predicate = self._expressions("WHERE").predicate(query.where)
        groups = query.group or query.having is not None or has_aggregate(query.items)
        keys: tuple[Expression, ...] = ()
        having: Expression = TRUE
        aggregates: tuple[Aggregate, ...] = ()
        items: Items | None = None
        with gather:
            if groups:
                keys, aggregates, having, items = self._grouped()
            else:
                items = self._selected(self._expressions("SELECT"))
        gather.check()
        relation = self._joined(predicate)
        if groups:
            relation = _kept(GroupRows(relation, keys, aggregates), having)
        if items is not None and items != all_columns(relation.schema):
            relation = MapRows(relation, items)
        return self._finished(relation)

    # --- FROM and WHERE ---

    def inputs_and_predicate(self) -> tuple[list[Entry], Expression]:
        where = self._query.where
        predicate = TRUE if where is None else self._expressions("WHERE").predicate(where)
        return self._entries, predicate

    def _bind_inputs(self, bound: Bound | Table | None) -> list[Entry]:
        alone = len(self._query.inputs) == 1
        found: list[Entry] = []
        gather = Gather()
        for input_ in self._query.inputs:
            with gather:
                stream = bound if bound is not None else self._binder.either(input_.stream)
                table, label = _table(self._binder, input_, stream), _label(input_)
                if label is not None and any(entry.label == label for entry in found):
                    at = input_.alias.at if input_.alias else input_.stream.at
                    hint = f"give each its own name: {label} AS a"
                    raise Problem("E178", f"two inputs of FROM are called {label!r}", at, hint)
                found.append(Entry(len(found), label, table, alone))
        gather.check()
        if len({entry.table.relation.unit for entry in found}) > 1:
            message = "the inputs of FROM have different clocks: one counts ticks"
            hint = "a stream with an integer time counts ticks"
            raise Problem("E120", message, self._query.inputs[-1].at, hint)
        return found

    def _joined(self, predicate: Expression) -> Relation:
        relations = tuple(entry.table.relation for entry in self._entries)
        if len(relations) == 1:
            return _kept(relations[0], predicate)
        return Join(relations, predicate)

    # --- SELECT, GROUP BY, HAVING ---

    def _expressions(self, place: str) -> QualifiedExpressions:
        binder = self._binder
        return QualifiedExpressions(self._scope, binder.functions, binder.constants, place)

    def _grouped(
        self,
    ) -> tuple[tuple[Expression, ...], tuple[Aggregate, ...], Expression, Items]:
        query, binder = self._query, self._binder
        keys = bind_keys(query.group, self._expressions("GROUP BY"))
        grouped = GroupedExpressions(self._scope, binder.functions, binder.constants, keys)
        gather = Gather()
        items: Items | None = None
        having: Expression = TRUE
        with gather:
            stars = [i for i in query.items or () if isinstance(i, syntax.Everything)]
            if stars or query.items is None:
                at = stars[0].at if stars else query.at
                hint = "select the keys of GROUP BY and aggregates"
                raise Problem("E175", "* of a group is not one row", at, hint)
            items = self._selected(grouped)
        with gather:
            if query.having is not None:
                having = grouped.predicate(query.having)
        gather.check()
        assert items is not None
        if not keys and not grouped.aggregates:
            hint = "write WHERE, or aggregate something"
            assert query.having is not None
            raise Problem("E175", "there is nothing to group", query.having.at, hint)
        return keys, tuple(grouped.aggregates), having, items

    def _selected(self, binder: QualifiedExpressions) -> Items:
        items = self._query.items or (syntax.Everything(self._query.at),)
        found: dict[str, Expression] = {}
        gather = Gather()
        for position, item in enumerate(items, 1):
            with gather:
                for name, expression in self._columns(item, position, binder):
                    if name in found:
                        hint = "give each its own name with AS"
                        raise Problem("E108", f"SELECT has {name!r} twice", item.at, hint)
                    found[name] = expression
        gather.check()
        if self._query.distinct:
            for expression in found.values():
                check_groupable(expression.type, "DISTINCT", items[0].at)
        return tuple(found.items())

    def _columns(
        self,
        item: syntax.Item | syntax.Everything,
        position: int,
        binder: QualifiedExpressions,
    ) -> list[tuple[str, Expression]]:
        if isinstance(item, syntax.Item):
            name = item.name.name if item.name else relational_name(item.expression, position)
            return [(name, binder.value(item.expression))]
        if item.of is None:
            return [column for entry in self._entries for column in self._all(entry)]
        return list(self._of(item.of).columns())

    def _of(self, owner: syntax.Scalar) -> Entry:
        """The input of `A.*`."""
        name = owner.name if isinstance(owner, syntax.Name) else None
        entry = self._scope.entry(name) if name is not None else None
        if entry is None:
            raise unknown_input(name or "this", owner.at, self._scope.labels())
        return entry

    def _all(self, entry: Entry) -> list[tuple[str, Ref]]:
        """The columns of one input in `*`. An ambiguous name gets the input's name as a prefix."""
        others = [other.table.schema for other in self._entries if other is not entry]
        found = []
        for name, ref in entry.columns():
            shared = any(name in schema for schema in others)
            found.append((f"{entry.label}_{name}" if shared and entry.label else name, ref))
        return found

    # --- the result ---

    def _finished(self, relation: Relation) -> Bound | Table:
        query = self._query
        if query.distinct:
            relation = DistinctRows(relation)
        kind_ = StreamKind(query.to_stream.name.capitalize()) if query.to_stream else None
        self._warn(kind_)
        if kind_ is None:
            return Table.of(relation, "the sub-query")
        return Bound(ToStream(relation, kind_), "the sub-query")

    def _warn(self, kind_: StreamKind | None) -> None:
        """Warn of unbounded state: the rows that a join keeps, or that Rstream repeats."""
        if len(self._entries) == 1 and kind_ is not StreamKind.RSTREAM:
            return
        endless = [e for e in self._entries if keeps_everything(e.table.relation)]
        if not endless:
            return
        names = listing(dict.fromkeys(e.label or e.table.stream.label for e in endless))
        what = "the join" if len(self._entries) > 1 else "Rstream"
        message = (
            f"{what} keeps every row of {names} for ever; give it a window, "
            "such as [Range 1 hour] or [Rows 1000]"
        )
        self._binder.warnings.append(("W202", message))


def _kept(relation: Relation, predicate: Expression) -> Relation:
    return relation if predicate == TRUE else KeepRows(relation, predicate)
