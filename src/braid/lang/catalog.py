"""What exists: declared streams, registered queries and what they publish, user functions."""

from __future__ import annotations

from collections.abc import Iterable

from braid.algebra.nodes import Read, reads
from braid.algebra.queries import Query
from braid.algebra.streams import Stream
from braid.errors import BraidError
from braid.lang.functions import Functions
from braid.lang.problems import alternatives, listing


class Catalog:
    """A mutable registry. Every change is checked before anything is changed."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.queries: dict[str, Query] = {}
        self.functions = Functions()
        self._publishers: dict[str, str] = {}
        self._readers: dict[str, set[str]] = {}
        self._sources: dict[str, Read] = {}

    def add_stream(self, stream: Stream) -> None:
        taken = self.taken(stream.name)
        if taken is not None:
            raise BraidError("E130", f"there is a stream {stream.name!r} already: {taken}")
        self.streams[stream.name] = stream
        self._sources[stream.name] = Read(stream.name, stream.schema, stream.unit)

    def publisher(self, name: str) -> Query | None:
        """The query that publishes the stream of this name."""
        query_id = self._publishers.get(name)
        return self.queries[query_id] if query_id is not None else None

    def source(self, name: str) -> Read | None:
        """How a query reads the stream of this name, declared or published."""
        return self._sources.get(name)

    def source_names(self) -> tuple[str, ...]:
        return tuple(self._sources)

    def taken(self, name: str) -> str | None:
        """Who has the name of a stream: None if it is free."""
        if name in self.streams:
            return "it is declared"
        publisher = self._publishers.get(name)
        return f"query {publisher!r} publishes it" if publisher is not None else None

    def add_query(self, query: Query) -> None:
        if query.id in self.queries:
            hint = "drop it first, or choose another id"
            raise BraidError("E131", f"there is a query {query.id!r} already", hint)
        for name in query.publishes:
            taken = self.taken(name)
            if taken is not None:
                message = f"query {query.id!r} publishes {name!r}, and {taken}"
                raise BraidError("E132", message)
        cycle = self._cycle(query)
        if cycle is not None:
            raise BraidError("E133", f"queries read each other in a cycle: {' -> '.join(cycle)}")
        self.queries[query.id] = query
        for output in query.outputs:
            if output.publish is not None:
                name, node = output.publish, output.node
                self._publishers[name] = query.id
                self._sources[name] = Read(name, node.schema, node.unit)
        for name in query.reads:
            self._readers.setdefault(name, set()).add(query.id)

    def remove_query(self, query_id: str) -> None:
        query = self.queries.get(query_id)
        if query is None:
            hint = alternatives("queries", query_id, self.queries)
            raise BraidError("E134", f"there is no query {query_id!r}", hint)
        for name in query.publishes:
            others = self._readers.get(name, set()) - {query_id}
            if others:
                readers = listing(sorted(others))
                message = f"query {query_id!r} publishes {name!r}, which is read by: {readers}"
                raise BraidError("E135", message, "drop those first")
        del self.queries[query_id]
        for name in query.publishes:
            del self._publishers[name]
            del self._sources[name]
        for name in query.reads:
            self._readers[name].discard(query_id)

    def copy(self) -> Catalog:
        other = Catalog()
        other.streams = dict(self.streams)
        other.queries = dict(self.queries)
        other.functions = self.functions.copy()
        other._publishers = dict(self._publishers)
        other._readers = {name: set(ids) for name, ids in self._readers.items()}
        other._sources = dict(self._sources)
        return other

    def replace(self, other: Catalog) -> None:
        """Become what another catalog is: how a whole file takes effect at once."""
        self.__dict__.update(other.copy().__dict__)

    def _cycle(self, query: Query) -> tuple[str, ...] | None:
        """The way from what the query publishes back to what it reads, through other queries."""
        own = set(query.publishes)
        ordered: set[str] = set()
        for output in query.outputs:
            missing = [n for n in reads(output.node) if n in own and n not in ordered]
            if missing:
                return (query.id, query.id)
            ordered.update({output.publish} if output.publish else set())
        if not any(self._readers.get(name) for name in own):
            return None
        return self._path(query.reads, own, (query.id,))

    def _path(
        self, names: Iterable[str], goal: set[str], so_far: tuple[str, ...]
    ) -> tuple[str, ...] | None:
        for name in names:
            publisher = self._publishers.get(name)
            if name in goal or publisher is None:
                continue
            query = self.queries[publisher]
            way = (*so_far, query.id)
            if goal & set(query.reads):
                return (*way, so_far[0])
            found = self._path(query.reads, goal, way)
            if found is not None:
                return found
        return None
