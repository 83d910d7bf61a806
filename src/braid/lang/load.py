"""A file of statements: all of it takes effect, or all of its errors are shown.

Streams come first; queries are bound in the order of what they read from each other, so one
may read what a later one publishes. DROP QUERY takes effect where it stands: the queries
before it are bound before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePath

from braid.algebra.queries import Query
from braid.algebra.streams import Stream
from braid.errors import BraidError, Notice, Origin, QueryErrors
from braid.lang import syntax
from braid.lang.catalog import Catalog
from braid.lang.compile import bind_query, derived_id, query_errors
from braid.lang.parser import parse
from braid.lang.problems import At, Problem, Problems
from braid.lang.streams import bind_stream
from braid.lang.tokens import Piece, pieces, published_by


@dataclass(frozen=True)
class Loaded:
    """What a file brought: new streams and queries, the ids of dropped queries, warnings."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    dropped: tuple[str, ...]
    notices: tuple[Notice, ...]


@dataclass(frozen=True)
class _Job:
    """A query of the file: its id, its syntax, its text, and which streams it needs and makes."""

    id: str
    query: syntax.Query
    text: str
    at: At
    reads: dict[str, At]
    publishes: dict[str, At]


@dataclass
class _File:
    """A load in progress, over a copy of the catalog."""

    text: str
    name: str | None
    catalog: Catalog
    errors: list[tuple[int, BraidError]] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    streams: list[Stream] = field(default_factory=list)
    queries: dict[str, Query] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def fail(self, error: Problem | Problems, query: str | None = None) -> None:
        origin = Origin(self.name, query)
        problems = error.problems if isinstance(error, Problems) else (error,)
        shown = [p for p in problems if not p.silent]
        for problem, made in zip(shown, query_errors(error, self.text, origin), strict=True):
            self.errors.append((problem.at[0], made))


def load(text: str, catalog: Catalog, *, name: str | None = None) -> Loaded:
    """Run a file of statements; with any error the catalog stays as it was."""
    file = _File(text, name, catalog.copy())
    statements = list(_statements(file))
    for statement in statements:
        if isinstance(statement, syntax.CreateStream):
            _create_stream(file, statement)
    for segment in _segments(statements):
        _bind_jobs(file, [s for s in segment if isinstance(s, _Job)])
        for statement in segment:
            if isinstance(statement, syntax.DropQuery):
                _drop(file, statement)
    if file.errors:
        file.errors.sort(key=lambda placed: placed[0])
        raise QueryErrors([error for _, error in file.errors])
    catalog.replace(file.catalog)
    written = [s.id for s in statements if isinstance(s, _Job)]
    queries = [file.queries[id_] for id_ in dict.fromkeys(written) if id_ in file.queries]
    return Loaded(tuple(file.streams), tuple(queries), tuple(file.dropped), tuple(file.notices))


_Parsed = syntax.CreateStream | syntax.DropQuery | _Job


def _statements(file: _File) -> Iterator[_Parsed]:
    """Everything that parses; the errors of the rest are noted, and what it would have made."""
    ids = _Ids(file)
    for piece in pieces(file.text):
        try:
            statement = parse(piece)
        except (Problem, Problems) as error:
            file.failed.update(published_by(piece.tokens))
            file.fail(error, _id_in(piece))
            continue
        if isinstance(statement, syntax.CreateStream | syntax.DropQuery):
            yield statement
        else:
            yield _job(statement, piece, file.text, ids)


def _id_in(piece: Piece) -> str | None:
    """The id of a CREATE QUERY that does not parse, for the message."""
    types = [token.type for token in piece.tokens[:3]]
    return str(piece.tokens[2]) if types == ["_CREATE", "_QUERY", "NAME"] else None


class _Ids:
    """Ids of bare queries: by their number in a named file, else from their text."""

    def __init__(self, file: _File) -> None:
        self._stem = PurePath(file.name).stem if file.name else None
        self._taken: set[str] = set()
        self._count = 0

    def next(self, text: str) -> str:
        self._count += 1
        if self._stem is not None:
            return f"{self._stem}:{self._count}"
        base, number = derived_id(text), 1
        found = base
        while found in self._taken:
            number += 1
            found = f"{base}_{number}"
        self._taken.add(found)
        return found


def _job(statement: syntax.CreateQuery | syntax.Query, piece: Piece, text: str, ids: _Ids) -> _Job:
    source = text[piece.start : piece.end]
    if isinstance(statement, syntax.CreateQuery):
        query_id, query, at = statement.name.name, statement.query, statement.name.at
    else:
        query_id, query, at = ids.next(source), statement, (piece.start, piece.end)
    reads: dict[str, At] = {}
    publishes: dict[str, At] = {}
    _names(query, reads, publishes)
    return _Job(query_id, query, source, at, reads, publishes)


def _names(stream: syntax.Stream, reads: dict[str, At], publishes: dict[str, At]) -> None:
    """Which streams a query reads and publishes, by the syntax alone."""
    match stream:
        case syntax.Source(name=ident):
            reads.setdefault(ident.name, ident.at)
        case syntax.Query(stream=inner, publish=publish):
            _names(inner, reads, publishes)
            if publish is not None:
                publishes.setdefault(publish.name, publish.at)
        case syntax.Filter(input=inner) | syntax.SameTime(input=inner):
            _names(inner, reads, publishes)
        case syntax.Next() | syntax.Fold() | syntax.Union():
            _names(stream.first, reads, publishes)
            _names(stream.second, reads, publishes)


def _segments(statements: Sequence[_Parsed]) -> Iterator[list[_Parsed]]:
    """The statements in runs that each end with a DROP."""
    segment: list[_Parsed] = []
    for statement in statements:
        segment.append(statement)
        if isinstance(statement, syntax.DropQuery):
            yield segment
            segment = []
    yield segment


def _create_stream(file: _File, node: syntax.CreateStream) -> None:
    try:
        stream = bind_stream(node)
        taken = file.catalog.taken(stream.name)
        if taken is not None:
            message = f"there is a stream {stream.name!r} already: {taken}"
            raise Problem("E130", message, node.name.at)
    except (Problem, Problems) as error:
        file.failed.add(node.name.name)
        file.fail(error)
        return
    file.catalog.add_stream(stream)
    file.streams.append(stream)


def _drop(file: _File, node: syntax.DropQuery) -> None:
    name = node.name.name
    try:
        file.catalog.remove_query(name)
    except BraidError as error:
        file.fail(Problem(error.code, error.message, node.name.at, error.hint))
        return
    file.dropped.append(name)
    file.queries.pop(name, None)
    file.notices = [notice for notice in file.notices if notice.query != name]


# --- queries in the order of what they read ---


def _bind_jobs(file: _File, jobs: Sequence[_Job]) -> None:
    makers: dict[str, _Job] = {}
    known: dict[str, _Job] = {}
    for job in jobs:
        if _is_new(file, job, known, makers):
            known[job.id] = job
            makers.update(dict.fromkeys(job.publishes, job))
    for job in _ordered(file, known, makers):
        failed = frozenset(file.failed)
        try:
            registered = bind_query(job.query, job.text, job.id, file.catalog, failed)
        except (Problem, Problems) as error:
            file.failed.update(job.publishes)
            file.fail(error, job.id)
            continue
        file.catalog.add_query(registered.query)
        file.queries[job.id] = registered.query
        file.notices.extend(registered.notices)


def _is_new(file: _File, job: _Job, known: Mapping[str, _Job], makers: Mapping[str, _Job]) -> bool:
    """Whether the id and the published names are free."""
    try:
        if job.id in file.catalog.queries or job.id in known:
            hint = "drop it first, or choose another id"
            raise Problem("E131", f"there is a query {job.id!r} already", job.at, hint)
        for name, at in job.publishes.items():
            taken = file.catalog.taken(name)
            if name in makers:
                taken = f"query {makers[name].id!r} publishes it"
            if taken is not None:
                raise Problem("E132", f"there is a stream {name!r} already: {taken}", at)
    except Problem as error:
        file.failed.update(job.publishes.keys() - makers.keys())
        file.fail(error, job.id)
        return False
    return True


def _ordered(file: _File, jobs: Mapping[str, _Job], makers: Mapping[str, _Job]) -> Iterator[_Job]:
    """Each query after those whose streams it reads; the queries of a cycle are left out."""
    left = dict(jobs)
    while True:
        needs = {
            job.id: [makers[n].id for n in job.reads if n in makers and makers[n].id in left]
            for job in left.values()
        }
        for own in needs:
            needs[own] = [other for other in needs[own] if other != own]
        try:
            yield from [left[id_] for id_ in TopologicalSorter(needs).static_order()]
            return
        except CycleError as error:
            cycle: list[str] = error.args[1]
            _note_cycle(file, [left[id_] for id_ in cycle])
            for id_ in set(cycle):
                file.failed.update(left.pop(id_).publishes)


def _note_cycle(file: _File, cycle: Sequence[_Job]) -> None:
    """`cycle` goes from each query to one that reads what it publishes, and ends where it began."""
    start = min(range(len(cycle) - 1), key=lambda i: cycle[i].at)
    way = [*cycle[start:-1], *cycle[: start + 1]]
    first, before = way[0], way[-2]
    at = next((at for name, at in first.reads.items() if name in before.publishes), first.at)
    shown = " -> ".join(job.id for job in way)
    hint = "an arrow goes from a query to one that reads what it publishes"
    file.fail(Problem("E133", f"queries read each other in a cycle: {shown}", at, hint), first.id)
