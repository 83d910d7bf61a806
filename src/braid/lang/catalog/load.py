"""Loading a file of statements: either all of it takes effect, or Braid shows all its errors.

Streams come first. Queries and views are bound in the order of their reads, so one may read the
stream of a later one. DROP takes effect at its position: Braid binds the statements before it
first.

A statement of a known shape is not parsed. Its outline determines what it reads and publishes, and
its constants determine which query of the shape it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePath

from braid.algebra.constraints import Constraint
from braid.algebra.queries import Query
from braid.algebra.streams import Stream
from braid.errors import BraidError, Notice, Origin, QueryError, QueryErrors
from braid.lang.bind.constraints import bind_constraint
from braid.lang.bind.dependencies import Dependencies, dependencies
from braid.lang.bind.views import View
from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import (
    Registered,
    Source,
    bind_query,
    compile_view,
    derived_id,
    query_errors,
    registered,
)
from braid.lang.catalog.prepared import Prepared, bind_prepared
from braid.lang.catalog.streams import bind_stream
from braid.lang.parse import syntax
from braid.lang.parse.limits import MAX_ERRORS
from braid.lang.parse.parser import parse
from braid.lang.parse.problems import At, Problem, Problems
from braid.lang.parse.tokens import Piece, piece_at, published_by
from braid.lang.templates.outlines import Outline, outlines
from braid.lang.templates.skeletons import Shape

_QueryStatement = syntax.AnyQuery | syntax.CreateQuery | syntax.CreateView
_Drop = syntax.DropQuery | syntax.DropView | syntax.DropConstraint


@dataclass(frozen=True)
class Loaded:
    """The result of a file: new streams, queries and views, the ids of dropped queries, warnings.

    `prepared` are the prepared queries, which have no rows yet.
    """

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    dropped: tuple[str, ...]
    notices: tuple[Notice, ...]
    prepared: tuple[Prepared, ...] = ()
    views: tuple[View, ...] = ()
    constraints: tuple[Constraint, ...] = ()


class _Job:
    """A query or view of the file: its id and the id's place, the streams that it reads and
    publishes.

    One of a known shape is parsed only if an error needs its syntax.
    """

    __slots__ = ("_file", "_parsed", "at", "id", "outline", "publishes", "reads")

    def __init__(
        self,
        file: _File,
        query_id: str,
        at: At,
        outline: Outline | None,
        parsed: tuple[_QueryStatement, Piece] | None,
        names: Shape | Dependencies,
    ) -> None:
        self.id = query_id
        self.at = at
        self.outline = outline
        self._file = file
        self._parsed = parsed
        self.reads: Collection[str] = names.reads
        self.publishes: Collection[str] = names.publishes
        if outline is not None and outline.publish and outline.publish not in names.publishes:
            self.publishes = (*names.publishes, outline.publish)

    def parsed(self) -> tuple[_QueryStatement, Piece]:
        if self._parsed is None:
            assert self.outline is not None
            self._parsed = _parsed_query(self._file.text, self.outline)
        return self._parsed

    def places(self) -> Dependencies:
        """The places of the names of streams."""
        return _dependencies(self.parsed()[0])

    @property
    def is_view(self) -> bool:
        return self._parsed is not None and isinstance(self._parsed[0], syntax.CreateView)

    @property
    def shown(self) -> str:
        return self.id.removeprefix(_VIEW) if self.is_view else self.id

    def source(self) -> str:
        start, end = self.span()
        return self._file.text[start:end]

    def span(self) -> At:
        if self.outline is not None:
            return (self.outline.start, self.outline.end)
        piece = self.parsed()[1]
        return (piece.start, piece.end)


#: The prefix of the ids of views. No id of a query begins with it.
_VIEW = "view "


def _dependencies(statement: _QueryStatement) -> Dependencies:
    """The streams that a statement reads, and those that it makes. A view makes itself."""
    if isinstance(statement, syntax.AnyQuery):
        return dependencies(statement)
    found = dependencies(statement.query)
    if isinstance(statement, syntax.CreateView):
        found.publishes = {statement.name.name: statement.name.at}
    return found


@dataclass
class _File:
    """A load in progress."""

    text: str
    name: str | None
    catalog: Catalog
    errors: list[tuple[int, BraidError]] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    streams: list[Stream] = field(default_factory=list)
    queries: dict[str, Query] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    notices: dict[str, tuple[Notice, ...]] = field(default_factory=dict)
    prepared: dict[str, Prepared] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    constraints: dict[str, Constraint] = field(default_factory=dict)

    def fail(self, error: Problem | Problems, query: str | None = None) -> None:
        origin = Origin(self.name, query)
        problems = error.problems if isinstance(error, Problems) else (error,)
        shown = [p for p in problems if not p.silent]
        if self.full:
            return
        for problem, made in zip(shown, query_errors(error, self.text, origin), strict=True):
            self.errors.append((problem.at[0], made))

    @property
    def full(self) -> bool:
        """Whether the limit of errors is reached."""
        return len(self.errors) >= MAX_ERRORS


def load(text: str, catalog: Catalog, *, name: str | None = None) -> Loaded:
    """Run a file of statements. With any error, the catalog does not change."""
    with catalog.attempt():
        return _load(_File(text, name, catalog))


def _load(file: _File) -> Loaded:
    statements = list(_statements(file))
    for statement in statements:
        if isinstance(statement, syntax.CreateStream):
            _create_stream(file, statement)
    for segment in _segments(statements):
        _bind_jobs(file, [s for s in segment if isinstance(s, _Job)])
        # After the queries, because published streams can have constraints too.
        for statement in segment:
            if isinstance(statement, syntax.CreateConstraint):
                _create_constraint(file, statement)
        for statement in segment:
            if isinstance(statement, _Drop):
                _drop(file, statement)
    if file.errors:
        file.errors.sort(key=lambda placed: placed[0])
        shown = [error for _, error in file.errors]
        if file.full:
            message = f"there are {len(shown):,} errors: what follows was not looked at"
            shown.append(QueryError("E128", message, origin=Origin(file.name)))
        raise QueryErrors(shown)
    written = dict.fromkeys(s.id for s in statements if isinstance(s, _Job))
    queries = [file.queries[id_] for id_ in written if id_ in file.queries]
    return Loaded(
        tuple(file.streams),
        tuple(queries),
        tuple(file.dropped),
        tuple(notice for found in file.notices.values() for notice in found),
        tuple(file.prepared.values()),
        tuple(file.views.values()),
        tuple(file.constraints.values()),
    )


_Parsed = syntax.CreateStream | syntax.CreateConstraint | _Drop | _Job


def _statements(file: _File) -> Iterator[_Parsed]:
    """The statements that parse. Notes the errors of the others and the streams that they would
    publish."""
    ids = _Ids(file)
    skeletons = file.catalog.skeletons
    for found in outlines(file.text):
        outline = found if isinstance(found, Outline) else None
        if outline is not None:
            shape = skeletons.shape(outline)
            if shape is not None:
                yield _job(file, ids, outline, None, shape)
                continue
        piece = _piece(file.text, found)
        if file.full:
            return
        try:
            statement = parse(piece)
        except (Problem, Problems) as error:
            file.failed.update(published_by(piece.tokens))
            file.fail(error, _id_in(piece))
            continue
        if isinstance(statement, syntax.CreateStream | syntax.CreateConstraint | _Drop):
            yield statement
            continue
        if isinstance(statement, syntax.CreateView) or (
            outline is not None and skeletons.parsed(outline, statement, piece.tokens) is None
        ):
            outline = None
        yield _job(file, ids, outline, (statement, piece), _dependencies(statement))


def _piece(text: str, found: Outline | Piece) -> Piece:
    if isinstance(found, Piece):
        return found
    piece, _ = piece_at(text, found.start)
    assert piece is not None
    return piece


def _parsed_query(text: str, outline: Outline) -> tuple[_QueryStatement, Piece]:
    piece = _piece(text, outline)
    statement = parse(piece)
    assert isinstance(statement, _QueryStatement)
    return statement, piece


def _id_in(piece: Piece) -> str | None:
    """The id of a CREATE QUERY that does not parse, for the message."""
    types = [token.type for token in piece.tokens[:3]]
    return str(piece.tokens[2]) if types == ["_CREATE", "_QUERY", "NAME"] else None


class _Ids:
    """Ids of bare queries: from their number in a named file, otherwise from their text."""

    def __init__(self, file: _File) -> None:
        self._stem = PurePath(file.name).stem if file.name else None
        self._taken: Counter[str] = Counter()
        self._count = 0

    def next(self, text: str) -> str:
        self._count += 1
        if self._stem is not None:
            return f"{self._stem}:{self._count}"
        base = derived_id(text)
        self._taken[base] += 1
        number = self._taken[base]
        return base if number == 1 else f"{base}_{number}"


def _job(
    file: _File,
    ids: _Ids,
    outline: Outline | None,
    parsed: tuple[_QueryStatement, Piece] | None,
    names: Shape | Dependencies,
) -> _Job:
    """A query under its own name; a bare query under the next id."""
    if outline is not None:
        name, at = outline.name, outline.named
        span = (outline.start, outline.end)
    else:
        assert parsed is not None
        statement, piece = parsed
        named = None if isinstance(statement, syntax.AnyQuery) else statement.name
        name, at = (named.name, named.at) if named else (None, None)
        if isinstance(statement, syntax.CreateView):
            name = f"{_VIEW}{name}"
        span = (piece.start, piece.end)
    if name is None:
        name = ids.next(file.text[span[0] : span[1]])
    return _Job(file, name, at or span, outline, parsed, names)


def _segments(statements: Sequence[_Parsed]) -> Iterator[list[_Parsed]]:
    """The statements in runs that each end with a DROP."""
    segment: list[_Parsed] = []
    for statement in statements:
        segment.append(statement)
        if isinstance(statement, _Drop):
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


def _create_constraint(file: _File, node: syntax.CreateConstraint) -> None:
    try:
        constraint = bind_constraint(node, file.catalog, file.failed)
    except (Problem, Problems) as error:
        file.fail(error)
        return
    file.catalog.add_constraint(constraint)
    file.constraints[constraint.name] = constraint


def _drop(file: _File, node: _Drop) -> None:
    name = node.name.name
    try:
        if isinstance(node, syntax.DropConstraint):
            file.catalog.remove_constraint(name)
            file.constraints.pop(name, None)
            return
        if isinstance(node, syntax.DropView):
            file.catalog.remove_view(name)
            file.views.pop(name, None)
            file.notices.pop(f"{_VIEW}{name}", None)
            return
        file.catalog.remove_query(name)
    except BraidError as error:
        file.fail(Problem(error.code, error.message, node.name.at, error.hint))
        return
    file.dropped.append(name)
    file.queries.pop(name, None)
    file.prepared.pop(name, None)
    file.notices.pop(name, None)


# --- queries in the order of their reads ---


def _bind_jobs(file: _File, jobs: Sequence[_Job]) -> None:
    makers: dict[str, _Job] = {}
    known: dict[str, _Job] = {}
    for job in jobs:
        if _is_new(file, job, known, makers):
            known[job.id] = job
            makers.update(dict.fromkeys(job.publishes, job))
    for job in _ordered(file, known, makers):
        if file.full:
            return
        try:
            _bind(file, job)
        except (Problem, Problems) as error:
            file.failed.update(job.publishes)
            file.fail(error, job.shown)


def _bind(file: _File, job: _Job) -> None:
    catalog = file.catalog
    found = _known(catalog, job)
    if found is None:
        statement, piece = job.parsed()
        if isinstance(statement, syntax.CreateView):
            view, notices = compile_view(statement, job.source(), catalog, file.failed)
            catalog.add_view(view)
            file.views[view.name], file.notices[job.id] = view, notices
            return
        if isinstance(statement, syntax.CreateQuery) and statement.parameters:
            prepared = bind_prepared(statement, job.source(), catalog, file.failed)
            catalog.add_prepared(prepared)
            file.prepared[job.id], file.notices[job.id] = prepared, prepared.notices
            return
        source = Source(job.source(), job.id, job.outline, piece)
        found = bind_query(statement, source, catalog, file.failed)
    catalog.add_query(found.query)
    file.queries[job.id] = found.query
    if found.notices:
        file.notices[job.id] = found.notices


def _known(catalog: Catalog, job: _Job) -> Registered | None:
    known = catalog.skeletons.find(job.outline, catalog) if job.outline is not None else None
    return registered(known, job.id, job.source()) if known is not None else None


def _is_new(file: _File, job: _Job, known: Mapping[str, _Job], makers: Mapping[str, _Job]) -> bool:
    """Whether the id and the published names are free."""
    try:
        queries = file.catalog.queries
        if job.id in queries or job.id in queries.prepared or job.id in known:
            hint = "drop it first, or choose another id"
            raise Problem("E131", f"there is a query {job.id!r} already", job.at, hint)
        for name in job.publishes:
            taken = file.catalog.taken(name)
            if name in makers:
                taken = f"query {makers[name].shown!r} publishes it"
                taken = "it is a view" if makers[name].is_view else taken
            if taken is not None:
                at = job.places().publishes[name]
                code = "E130" if job.is_view else "E132"
                raise Problem(code, f"there is a stream {name!r} already: {taken}", at)
        if file.catalog.ending:
            _check_sources(file.catalog, job)
    except Problem as error:
        file.failed.update(set(job.publishes) - makers.keys())
        file.fail(error, job.shown)
        return False
    return True


def _check_sources(catalog: Catalog, job: _Job) -> None:
    try:
        catalog.check_sources(job.shown, job.reads)
    except BraidError as error:
        raise Problem(error.code, error.message, job.at, error.hint) from None


def _ordered(file: _File, jobs: Mapping[str, _Job], makers: Mapping[str, _Job]) -> Iterator[_Job]:
    """Each query after the publishers of its streams, without the queries of a cycle."""
    left = dict(jobs)
    if not any(name in makers for job in left.values() for name in job.reads):
        yield from left.values()
        return
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
    """Note a cycle. Each query of `cycle` publishes a stream that the next one reads; the last is
    the first."""
    start = min(range(len(cycle) - 1), key=lambda i: cycle[i].at)
    way = [*cycle[start:-1], *cycle[: start + 1]]
    first, before = way[0], way[-2]
    reads = first.places().reads
    at = next((at for name, at in reads.items() if name in before.publishes), first.at)
    shown = " -> ".join(job.shown for job in way)
    hint = "an arrow goes from a query to one that reads what it makes"
    message = f"queries read each other in a cycle: {shown}"
    file.fail(Problem("E133", message, at, hint), first.shown)
