"""The catalog of declared streams, registered queries, the streams they publish, and user
functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from braid.algebra.constraints import Constraint
from braid.algebra.nodes import Read, reads
from braid.algebra.queries import Query, members_of
from braid.algebra.streams import Stream
from braid.algebra.templates import Members, Template
from braid.errors import BraidError
from braid.lang.bind.user_functions import Functions
from braid.lang.catalog.registry import Queries, Roster
from braid.lang.parse.problems import alternatives, listing
from braid.lang.templates.skeletons import Skeletons
from braid.lang.templates.xml_templates import DocumentTemplates

if TYPE_CHECKING:
    from braid.lang.bind.views import View
    from braid.lang.catalog.prepared import Prepared


#: Raises if a query or a constraint cannot run.
Check = Callable[[Template | Constraint], None]
#: One addition: "stream", "view", "constraint", "query" or "rows", the name, and for rows the
#: numbers of members and rows.
_Change = tuple[str, str, int, int]


class Catalog:
    """A mutable registry. It checks every change before it makes it.

    `queries` includes the members of prepared queries. `skeletons` caches the shapes of bound
    texts.
    """

    def __init__(self, check: Check | None = None) -> None:
        """`check` raises if a registered query or constraint cannot run."""
        self._check = check
        self.streams: dict[str, Stream] = {}
        self.views: dict[str, View] = {}
        self.constraints: dict[str, Constraint] = {}
        self.queries = Queries()
        self.functions = Functions()
        self.skeletons = Skeletons()
        self.document_templates = DocumentTemplates()
        #: The end times of queries that are scheduled to end.
        self.ending: dict[str, int] = {}
        self._publishers: dict[str, str] = {}
        self._readers: dict[str, set[str]] = {}
        self._sources: dict[str, Read] = {}
        self._members: list[Members] | None = None
        self._undo: list[_Change] | None = None
        self._kept: Catalog | None = None

    # --- streams ---

    def add_stream(self, stream: Stream) -> None:
        taken = self.taken(stream.name)
        if taken is not None:
            raise BraidError("E130", f"there is a stream {stream.name!r} already: {taken}")
        self.streams[stream.name] = stream
        self._sources[stream.name] = Read(stream.name, stream.schema, stream.unit)
        self._changed(("stream", stream.name, 0, 0))

    def publisher(self, name: str) -> Query | None:
        """The query that publishes a stream, unless it is a prepared one."""
        query_id = self._publishers.get(name)
        return self.queries.single.get(query_id) if query_id is not None else None

    def source(self, name: str) -> Read | None:
        """A declared or published stream, as queries read it."""
        return self._sources.get(name)

    def source_names(self) -> tuple[str, ...]:
        """The names of all streams and views."""
        return (*self._sources, *self.views)

    def taken(self, name: str) -> str | None:
        """A phrase for the owner of a stream's name; None if the name is free."""
        if name in self.streams:
            return "it is declared"
        if name in self.views:
            return "it is a view"
        publisher = self._publishers.get(name)
        return f"query {publisher!r} publishes it" if publisher is not None else None

    # --- views ---

    def add_view(self, view: View) -> None:
        taken = self.taken(view.name)
        if taken is not None:
            raise BraidError("E130", f"there is a stream {view.name!r} already: {taken}")
        self.check_sources(view.name, (*view.reads, *view.views))
        self.views[view.name] = view
        self._note_reader(f"view {view.name}", (*view.reads, *view.views))
        self._changed(("view", view.name, 0, 0))

    def remove_view(self, name: str) -> None:
        if name not in self.views:
            hint = alternatives("views", name, self.views)
            raise BraidError("E181", f"there is no view {name!r}", hint)
        readers = self._readers.get(name)
        if readers:
            message = f"the view {name!r} is read by: {listing(sorted(readers))}"
            raise BraidError("E182", message, "drop those first")
        self._before_removal()
        self._forget_view(name)

    def _forget_view(self, name: str) -> None:
        view = self.views.pop(name)
        self._forget_reader(f"view {name}", (*view.reads, *view.views))

    # --- constraints ---

    def add_constraint(self, constraint: Constraint) -> None:
        if constraint.name in self.constraints:
            raise BraidError("E195", f"there is a constraint {constraint.name!r} already")
        if self._check is not None:
            self._check(constraint)
        self.constraints[constraint.name] = constraint
        self._changed(("constraint", constraint.name, 0, 0))

    def remove_constraint(self, name: str) -> None:
        if name not in self.constraints:
            hint = alternatives("constraints", name, self.constraints)
            raise BraidError("E196", f"there is no constraint {name!r}", hint)
        self._before_removal()
        del self.constraints[name]

    # --- queries ---

    def add_query(self, query: Query) -> None:
        self._check_new(query.id, query.template)
        self.queries.single[query.id] = query
        self._link(query.id, query.template)
        self._changed(("query", query.id, 0, 0))

    def add_prepared(self, prepared: Prepared) -> None:
        """Register a prepared query, or more rows of a registered one."""
        name, statement = prepared.name, prepared.statement
        roster = self.queries.prepared.get(name)
        if roster is None:
            self._check_new(name, statement.template)
            roster = self.queries.prepared[name] = Roster(statement)
            self._link(name, statement.template)
            self._changed(("query", name, 0, 0))
        elif roster.statement is not statement:
            hint = "drop it first, or choose another name"
            raise BraidError("E131", f"there is a prepared query {name!r} already", hint)
        roster.add(prepared.members, prepared.rows)
        self._changed(("rows", name, len(prepared.members), prepared.rows))

    @property
    def prepared(self) -> Mapping[str, Roster]:
        """The prepared queries by name, with their members."""
        return self.queries.prepared

    def remove_query(self, query_id: str) -> None:
        """Remove a query, a prepared query with all its members, or one member."""
        self.removable(query_id)
        self._before_removal()
        self.ending.pop(query_id, None)
        if self.ending and query_id in self.queries.prepared:
            own = [name for name in self.ending if name.startswith(f"{query_id}/")]
            for name in own:
                del self.ending[name]
        if self._template(query_id) is None:
            roster = self.queries.roster_of(query_id)
            assert roster is not None
            roster.drop(query_id)
        else:
            self._forget(query_id)
        self._members = None

    def removable(self, query_id: str) -> Template:
        """The template of a query or of the prepared query of a member. Raises if the query does
        not exist or has readers."""
        template = self._template(query_id)
        if template is None:
            return self._template_of_member(query_id)
        for name in template.publishes:
            others = self._readers.get(name, set()) - {query_id}
            if others:
                readers = listing(sorted(others))
                message = f"query {query_id!r} publishes {name!r}, which is read by: {readers}"
                raise BraidError("E135", message, "drop those first")
        return template

    def _template_of_member(self, member: str) -> Template:
        roster = self.queries.roster_of(member)
        if roster is None:
            hint = alternatives("queries", member, [*self.queries.prepared, *self.queries.single])
            raise BraidError("E134", f"there is no query {member!r}", hint)
        return roster.template

    def end_query(self, query_id: str, at: int) -> None:
        """Schedule the end of a query. Until then it exists, but no new query may read it. The
        earliest time counts."""
        self.removable(query_id)
        self._before_removal()
        self.ending[query_id] = min(at, self.ending.get(query_id, at))

    def members(self) -> list[Members]:
        """All queries by template, each after the queries that it reads.

        A prepared query without rows is included, because others may read its stream.
        """
        if self._members is None:
            groups = members_of(self.queries.single.values())
            groups += [roster.members() for roster in self.queries.prepared.values()]
            self._members = _ordered(groups)
        return list(self._members)

    # --- transactions ---

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """A block of changes that are undone if it raises."""
        assert self._undo is None, "attempts do not nest"
        self._undo = []
        try:
            yield
        except BaseException:
            if self._kept is not None:
                self._become(self._kept)
            for change in reversed(self._undo):
                self._take_back(*change)
            raise
        finally:
            self._undo = self._kept = self._members = None

    def _changed(self, change: _Change) -> None:
        self._members = None
        if self._undo is not None and self._kept is None:
            self._undo.append(change)

    def _take_back(self, kind: str, name: str, members: int, rows: int) -> None:
        match kind:
            case "query":
                self._forget(name)
            case "view":
                self._forget_view(name)
            case "constraint":
                del self.constraints[name]
            case "rows":
                self.queries.prepared[name].take_back(members, rows)
            case _:
                del self.streams[name]
                del self._sources[name]

    def _before_removal(self) -> None:
        """Switch the undo log to a copy, because undone removals would come back in another order."""
        if self._undo is not None and self._kept is None:
            self._kept = self.copy()

    def copy(self) -> Catalog:
        other = Catalog(self._check)
        other.streams = dict(self.streams)
        other.views = dict(self.views)
        other.constraints = dict(self.constraints)
        other.ending = dict(self.ending)
        other.queries = self.queries.copy()
        other.functions = self.functions.copy()
        other.document_templates = self.document_templates
        other.skeletons = self.skeletons  # checked against the catalog of the caller
        other._publishers = dict(self._publishers)
        other._readers = {name: set(ids) for name, ids in self._readers.items()}
        other._sources = dict(self._sources)
        return other

    def _become(self, other: Catalog) -> None:
        for name in ("streams", "views", "constraints", "queries", "ending"):
            setattr(self, name, getattr(other, name))
        for name in ("_publishers", "_readers", "_sources"):
            setattr(self, name, getattr(other, name))

    # --- dependencies ---

    def _template(self, query_id: str) -> Template | None:
        query = self.queries.single.get(query_id) or self.queries.prepared.get(query_id)
        return None if query is None else query.template

    def _check_new(self, query_id: str, template: Template) -> None:
        if query_id in self.queries or query_id in self.queries.prepared:
            hint = "drop it first, or choose another id"
            raise BraidError("E131", f"there is a query {query_id!r} already", hint)
        for name in template.publishes:
            taken = self.taken(name)
            if taken is not None:
                message = f"query {query_id!r} publishes {name!r}, and {taken}"
                raise BraidError("E132", message)
        if self._check is not None:
            self._check(template)
        self.check_sources(query_id, (*template.reads, *template.views))
        cycle = self._cycle(query_id, template)
        if cycle is not None:
            raise BraidError("E133", f"queries read each other in a cycle: {' -> '.join(cycle)}")

    def check_sources(self, reader: str, names: Iterable[str]) -> None:
        """Refuse to read a stream that is scheduled to end: the reader would end with it."""
        for name in names:
            at = self.ending.get(self._publishers.get(name, ""))
            if at is not None:
                message = f"{reader!r} reads {name!r}, whose query ends at {at}"
                raise BraidError("E139", message, "drop it later, after its readers")

    def _link(self, query_id: str, template: Template) -> None:
        for output in template.outputs:
            if output.publish is not None:
                name, node = output.publish, output.node
                self._publishers[name] = query_id
                self._sources[name] = Read(name, node.schema, node.unit)
        self._note_reader(query_id, (*template.reads, *template.views))

    def _note_reader(self, reader: str, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.streams:  # a declared stream is permanent and needs no record of
                # readers
                self._readers.setdefault(name, set()).add(reader)

    def _forget_reader(self, reader: str, names: Iterable[str]) -> None:
        for name in names:
            if name in self._readers:
                self._readers[name].discard(reader)

    def _forget(self, query_id: str) -> None:
        template = self._template(query_id)
        assert template is not None
        self.queries.single.pop(query_id, None)
        self.queries.prepared.pop(query_id, None)
        for name in template.publishes:
            del self._publishers[name]
            del self._sources[name]
        self._forget_reader(query_id, (*template.reads, *template.views))

    def _cycle(self, query_id: str, template: Template) -> tuple[str, ...] | None:
        """The path from the streams that the query publishes back to one that it reads."""
        if not template.publishes:
            return None
        own = set(template.publishes)
        if not own.isdisjoint(template.reads) and _reads_itself(template):
            return (query_id, query_id)
        if not any(self._readers.get(name) for name in own):
            return None
        return self._path(template.reads, own, (query_id,))

    def _path(
        self, names: Iterable[str], goal: set[str], so_far: tuple[str, ...]
    ) -> tuple[str, ...] | None:
        for name in names:
            publisher = self._publishers.get(name)
            if name in goal or publisher is None:
                continue
            template = self._template(publisher)
            assert template is not None
            way = (*so_far, publisher)
            if goal & set(template.reads):
                return (*way, so_far[0])
            found = self._path(template.reads, goal, way)
            if found is not None:
                return found
        return None


def _reads_itself(template: Template) -> bool:
    """Whether an output reads an output that is not before it."""
    later = set(template.publishes)
    for output in template.outputs:
        if not later.isdisjoint(reads(output.node)):
            return True
        later.discard(output.publish or "")
    return False


def _ordered(groups: list[Members]) -> list[Members]:
    """The outputs with publishers before readers, otherwise in the given order."""
    makers = {name: i for i, g in enumerate(groups) for name in g.template.publishes}
    needs = {
        i: [makers[n] for n in g.template.reads if n in makers and makers[n] != i]
        for i, g in enumerate(groups)
    }
    if all(need < i for i, found in needs.items() for need in found):
        return groups
    return [groups[i] for i in TopologicalSorter(needs).static_order()]
