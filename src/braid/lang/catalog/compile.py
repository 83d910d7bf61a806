"""One query: text -> bound query, with its warnings."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from braid.algebra.bounds import bound_durations
from braid.algebra.nodes import Node
from braid.algebra.queries import Output, Query
from braid.algebra.relations import rebuilt
from braid.algebra.templates import map_expressions
from braid.errors import BraidError, Notice, Origin, QueryError, QueryErrors
from braid.lang.bind.binder import Binder
from braid.lang.bind.constants import Constants
from braid.lang.bind.constraints import bind_mode, settled_mode
from braid.lang.bind.empty_ranges import ranges_of, warnings_of
from braid.lang.bind.lookups import Sources, lookup_in
from braid.lang.bind.scopes import Bound as BoundStream
from braid.lang.bind.tables import Table
from braid.lang.bind.views import View, bind_view, view_names
from braid.lang.bind.warnings import Warnings, unbounded, warnings_about
from braid.lang.catalog.catalog import Catalog
from braid.lang.parse import syntax
from braid.lang.parse.parser import parse
from braid.lang.parse.problems import Problem, Problems
from braid.lang.parse.tokens import Piece, piece_at, span_of
from braid.lang.templates.lifting import plain, untraced
from braid.lang.templates.outlines import Outline, outline_of
from braid.lang.templates.skeletons import Bound, Known
from braid.lang.templates.xml_templates import has_documents


@dataclass(frozen=True)
class Registered:
    """A bound query and its warnings."""

    query: Query
    notices: tuple[Notice, ...]


def compile_query(
    text: str,
    catalog: Catalog,
    *,
    query_id: str | None = None,
    origin: Origin | None = None,
) -> Registered:
    """Bind a bare query or one CREATE QUERY against the catalog, without a change to the catalog.

    The id is the one given, or CREATE QUERY's, or derived from the text.
    """
    outline = outline_of(text)
    if outline is not None:
        known = catalog.skeletons.find(outline, catalog)
        if known is not None:
            return registered(known, query_id or outline.name or derived_id(text), text.strip())
    origin = origin or Origin(query=query_id)
    try:
        statement, piece = only_query(text)
        named = statement.name.name if isinstance(statement, syntax.CreateQuery) else None
        known_id = query_id or named
        if origin.query is None and known_id is not None:
            origin = Origin(origin.name, known_id, origin.line, origin.column)
        source = Source(text.strip(), known_id or derived_id(text), outline, piece)
        return bind_query(statement, source, catalog)
    except (Problem, Problems) as error:
        raise together(query_errors(error, text, origin)) from None


def together(errors: Sequence[BraidError]) -> BraidError:
    """A single error as itself, several as `QueryErrors`."""
    return errors[0] if len(errors) == 1 else QueryErrors(errors)


def query_errors(error: Problem | Problems, text: str, origin: Origin) -> list[BraidError]:
    problems = error.problems if isinstance(error, Problems) else (error,)
    return [
        QueryError(
            p.code, p.message, text=text, span=span_of(text, p.at), origin=origin, hint=p.hint
        )
        for p in problems
        if not p.silent
    ]


def derived_id(text: str) -> str:
    """An id derived from the text, the same in every process."""
    digest = hashlib.blake2b(text.strip().encode(), digest_size=4)
    return f"q_{digest.hexdigest()}"


class Source(NamedTuple):
    """A query's text and id, and the text's outline and tokens."""

    text: str
    id: str
    outline: Outline | None
    piece: Piece


def bind_query(
    statement: syntax.AnyQuery | syntax.CreateQuery,
    source: Source,
    catalog: Catalog,
    failed: Collection[str] = (),
) -> Registered:
    """Bind a parsed query. `failed` are streams that are missing because of an error in another
    statement."""
    if isinstance(statement, syntax.CreateQuery) and statement.parameters:
        hint = "give them to prepare(), or load the statement and give them later"
        message = "this is a prepared query: it needs rows of parameters"
        raise Problem("E164", message, statement.name.at, hint)
    query, asked = statement, None
    if isinstance(statement, syntax.CreateQuery):
        query, asked = statement.query, bind_mode(statement.mode)
    assert isinstance(query, syntax.AnyQuery)
    sources: Sources = {}
    constants = Constants()
    outputs, found = bind_outputs(query, catalog, constants, failed, sources)
    ready = tuple(Output(bound_durations(o.node), o.publish) for o in plain(outputs))
    mode, told = settled_mode(asked, ready)
    warnings = (*warnings_about(ready), *found, *told)
    if has_documents(ready):
        template, values = catalog.document_templates.of(ready, view_names(sources.items()))
        return registered(Known(template, values, warnings), source.id, source.text)
    shape = None
    if source.outline is not None:
        shape = catalog.skeletons.parsed(source.outline, statement, source.piece.tokens)
    if shape is None or source.outline is None:
        query_ = Query(source.id, source.text, ready, view_names(sources.items()), mode)
        warnings = (*warnings, *warnings_of(ranges_of(ready)))
        return Registered(query_, notices(source.id, warnings))
    tokens = source.piece.tokens
    bound = Bound(outputs, ready, constants.traces, tokens, sources, warnings, mode)
    known = catalog.skeletons.learn(source.outline, shape, bound, catalog)
    return registered(known, source.id, source.text)


def registered(known: Known, query_id: str, text: str) -> Registered:
    """A query with a known template."""
    query = Query.of(query_id, text, known.template, known.values)
    return Registered(query, notices(query_id, known.warnings))


def bind_outputs(
    query: syntax.AnyQuery,
    catalog: Catalog,
    constants: Constants,
    failed: Collection[str],
    sources: Sources,
) -> tuple[tuple[Output, ...], Warnings]:
    """The outputs of a query. `sources` collects the names that the query looked up."""
    own = query.publish.name if query.publish else None
    lookup = lookup_in(catalog, own, failed, sources)
    binder = Binder(lookup, catalog.functions, constants)
    try:
        return binder.query(query), tuple(binder.warnings)
    except RecursionError:
        raise Problem("E122", "this query is nested too deeply", query.at) from None


def compile_view(
    statement: syntax.CreateView, text: str, catalog: Catalog, failed: Collection[str]
) -> tuple[View, tuple[Notice, ...]]:
    """Bind a view, without a change to the catalog."""
    sources: Sources = {}
    name = statement.name.name
    binder = Binder(lookup_in(catalog, name, failed, sources), catalog.functions, Constants())
    try:
        bound = _settled(bind_view(binder, statement))
    except RecursionError:
        raise Problem("E122", "this view is nested too deeply", statement.at) from None
    stream = bound.stream if isinstance(bound, Table) else bound
    ready = (Output(bound_durations(stream.node), None),)
    warnings = (*unbounded(ready), *binder.warnings)
    view = View(name, text, bound, view_names(sources.items()))
    return view, notices(name, warnings)


def _settled(bound: BoundStream | Table) -> BoundStream | Table:
    """A view with its constants detached from the texts that read it."""
    if isinstance(bound, Table):
        stream = bound.stream
        relation = rebuilt(bound.relation, untraced, _plain_node)
        return Table.of(relation, stream.label, stream.aliases, stream.times)
    return replace(bound, node=bound_durations(_plain_node(bound.node)))


def _plain_node(node: Node) -> Node:
    return map_expressions(node, untraced)


def only_query(text: str) -> tuple[syntax.AnyQuery | syntax.CreateQuery, Piece]:
    found: list[Piece] = []
    position = 0
    while position < len(text) and len(found) < 2:
        piece, position = piece_at(text, position)
        found += [] if piece is None else [piece]
    if not found:
        raise Problem("E138", "there is no query in this text", (0, 1))
    if len(found) > 1:
        hint = "load() takes several statements"
        raise Problem("E137", "this text has more than one statement", (found[1].start,) * 2, hint)
    statement = parse(found[0])
    if not isinstance(statement, syntax.AnyQuery | syntax.CreateQuery):
        hint = "load() takes statements of all kinds"
        raise Problem("E137", "this is not a query", (found[0].start, found[0].end), hint)
    return statement, found[0]


def notices(query_id: str, warnings: Warnings) -> tuple[Notice, ...]:
    return tuple(Notice(code, query_id, message) for code, message in warnings)
