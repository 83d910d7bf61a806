"""One query: text -> bound query, with the warnings it deserves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from braid.algebra.bounds import bound_durations
from braid.algebra.nodes import Sequence as NextNode
from braid.algebra.nodes import is_unbounded, walk_nodes
from braid.algebra.queries import Output, Query
from braid.errors import BraidError, Notice, Origin, QueryError, QueryErrors
from braid.lang import syntax
from braid.lang.binder import Binder, Lookup
from braid.lang.catalog import Catalog
from braid.lang.parser import parse
from braid.lang.problems import Problem, Problems, alternatives
from braid.lang.scopes import Bound
from braid.lang.tokens import pieces, span_of


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
    origin = origin or Origin(query=query_id)
    try:
        statement = _only_query(text)
        named = statement.name.name if isinstance(statement, syntax.CreateQuery) else None
        known_id = query_id or named
        if origin.query is None and known_id is not None:
            origin = Origin(origin.name, known_id, origin.line, origin.column)
        query = statement.query if isinstance(statement, syntax.CreateQuery) else statement
        return bind_query(query, text.strip(), known_id or derived_id(text), catalog)
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


def bind_query(
    query: syntax.Query,
    text: str,
    query_id: str,
    catalog: Catalog,
    failed: frozenset[str] = frozenset(),
) -> Registered:
    """Bind a parsed query; `failed` are streams whose absence is another statement's fault."""
    binder = Binder(_lookup(catalog, query, failed), catalog.functions)
    try:
        outputs = binder.query(query)
    except RecursionError:
        raise Problem("E122", "this query is nested too deeply", query.at) from None
    outputs = tuple(Output(bound_durations(o.node), o.publish) for o in outputs)
    bound = Query(query_id, text, outputs)
    return Registered(bound, tuple(_notices(bound)))


def _only_query(text: str) -> syntax.Query | syntax.CreateQuery:
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
    return statement


def _lookup(catalog: Catalog, query: syntax.Query, failed: frozenset[str]) -> Lookup:
    own = query.publish.name if query.publish else None

    def lookup(ident: syntax.Ident) -> Bound:
        found = catalog.source(ident.name)
        if found is not None:
            declared = catalog.streams.get(ident.name)
            return Bound(found, ident.name, {}, declared.time if declared else ())
        if ident.name == own:
            hint = "a stream cannot be made from itself"
            message = f"this query reads what it publishes: {own} -> {own}"
            raise Problem("E133", message, ident.at, hint)
        hint = alternatives("streams", ident.name, catalog.source_names())
        silent = ident.name in failed
        raise Problem("E105", f"there is no stream {ident.name!r}", ident.at, hint, silent=silent)

    return lookup


def _notices(query: Query) -> Iterator[Notice]:
    """A warning for patterns that may hold events for ever."""
    endless = [n for o in query.outputs for n in walk_nodes(o.node) if is_unbounded(n)]
    if not endless:
        return
    words = dict.fromkeys("NEXT" if isinstance(n, NextNode) else "FOLD" for n in endless)
    message = (
        f"{' and '.join(words)} without a bound may hold events for ever; "
        "add a limit such as DUR <= 1h to the predicate, or to a FILTER above"
    )
    yield Notice("W201", query.id, message)
