"""One query: text -> bound query, with the warnings it deserves."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from braid.algebra.bounds import bound_durations
from braid.algebra.nodes import Read
from braid.algebra.queries import Output, Query
from braid.errors import BraidError, Notice, Origin, QueryError, QueryErrors
from braid.lang import syntax
from braid.lang.binder import Binder
from braid.lang.catalog import Catalog
from braid.lang.constants import Constants
from braid.lang.lifting import plain
from braid.lang.lookups import lookup_in
from braid.lang.notices import unbounded
from braid.lang.outlines import Outline, outline_of
from braid.lang.parser import parse
from braid.lang.problems import Problem, Problems
from braid.lang.skeletons import Bound, Known
from braid.lang.tokens import Piece, pieces, span_of


@dataclass(frozen=True)
class Registered:
    """A bound query and what the user should know about it."""

    query: Query
    notices: tuple[Notice, ...]


def compile_query(
    text: str,
    catalog: Catalog,
    *,
    query_id: str | None = None,
    origin: Origin | None = None,
) -> Registered:
    """Bind a bare query or one CREATE QUERY against what exists; the catalog stays as it is.

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
    """One error as itself, several as `QueryErrors`."""
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
    """The same text has the same id, in every process."""
    digest = hashlib.blake2b(text.strip().encode(), digest_size=4)
    return f"q_{digest.hexdigest()}"


class Source(NamedTuple):
    """A query's text and id, and the text's outline and tokens."""

    text: str
    id: str
    outline: Outline | None
    piece: Piece


def bind_query(
    statement: syntax.Query | syntax.CreateQuery,
    source: Source,
    catalog: Catalog,
    failed: Collection[str] = (),
) -> Registered:
    """Bind a parsed query; `failed` are streams whose absence is another statement's fault."""
    if isinstance(statement, syntax.CreateQuery) and statement.parameters:
        hint = "give them to prepare(), or load the statement and give them later"
        message = "this is a prepared query: it needs rows of parameters"
        raise Problem("E164", message, statement.name.at, hint)
    query = statement.query if isinstance(statement, syntax.CreateQuery) else statement
    sources: dict[str, Read] = {}
    constants = Constants()
    outputs = bind_outputs(query, catalog, constants, failed, sources)
    ready = tuple(Output(bound_durations(o.node), o.publish) for o in plain(outputs))
    endless = unbounded(ready)
    shape = None
    if source.outline is not None:
        shape = catalog.skeletons.parsed(source.outline, statement, source.piece.tokens)
    if shape is None or source.outline is None:
        bound = Query(source.id, source.text, ready)
        return Registered(bound, _notices(source.id, endless))
    found = Bound(outputs, ready, constants.traces, source.piece.tokens, sources, endless)
    known = catalog.skeletons.learn(source.outline, shape, found, catalog)
    return registered(known, source.id, source.text)


def registered(known: Known, query_id: str, text: str) -> Registered:
    """A query whose template is known."""
    query = Query.of(query_id, text, known.template, known.values)
    return Registered(query, _notices(query_id, known.endless))


def bind_outputs(
    query: syntax.Query,
    catalog: Catalog,
    constants: Constants,
    failed: Collection[str],
    sources: dict[str, Read],
) -> tuple[Output, ...]:
    """What a query produces; the streams of the catalog that it looked up are put into `sources`."""
    own = query.publish.name if query.publish else None
    lookup = lookup_in(catalog, own, failed, sources)
    binder = Binder(lookup, catalog.functions, constants)
    try:
        return binder.query(query)
    except RecursionError:
        raise Problem("E122", "this query is nested too deeply", query.at) from None


def only_query(text: str) -> tuple[syntax.Query | syntax.CreateQuery, Piece]:
    found = pieces(text)
    if not found:
        raise Problem("E138", "there is no query in this text", (0, 1))
    if len(found) > 1:
        hint = "load() takes several statements"
        raise Problem("E137", "this text has more than one statement", (found[1].start,) * 2, hint)
    statement = parse(found[0])
    if isinstance(statement, syntax.CreateStream | syntax.DropQuery):
        hint = "load() takes statements of all kinds"
        raise Problem("E137", "this is not a query", (found[0].start, found[0].end), hint)
    return statement, found[0]


def _notices(query_id: str, endless: str | None) -> tuple[Notice, ...]:
    return () if endless is None else (Notice("W201", query_id, endless),)
