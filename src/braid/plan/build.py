"""From bound queries to a plan.

Each operator of a lowered expression becomes an m-op, unless an equal one is there already:
then the query becomes one more member of it. Only attributes that somebody needs are read from
the sources, bound in instances and emitted. A projection that only picks and renames is folded
into the NEXT or FOLD below it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field, replace

import pyarrow as pa

from braid.algebra.expressions import Expression, Ref, Source, refs
from braid.algebra.nodes import (
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
    reads,
)
from braid.algebra.queries import Query
from braid.algebra.schema import TICKS, Schema
from braid.algebra.streams import Stream
from braid.algebra.types import TIMESTAMP
from braid.plan.lower import lower
from braid.plan.plan import Mop, Outlet, Plan, source_channel
from braid.plan.specs import (
    PatternSpec,
    ProjectSpec,
    SameTimeSpec,
    SelectSpec,
    Shape,
    Spec,
    UnionSpec,
)

#: Output attribute and the attribute of the operator that it shows.
Wanted = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Channel:
    signature: str
    shape: Shape


def build_plan(
    queries: SequenceOf[Query],
    streams: Mapping[str, Stream],
    births: Mapping[str, int] | None = None,
) -> Plan:
    """A plan for queries in an order in which each reads only what earlier ones publish.

    `births`: the generation of each query (default: all the same). Only queries of one
    generation share operators with state.
    """
    ages = births or {}
    whole = _Builder(queries, streams, {n: Shape(s.schema) for n, s in streams.items()}, ages)
    whole.run()
    # Once more, now that it is known which attributes of each stream anybody needs.
    read = {
        name: Shape(Schema(tuple(a for a in streams[name].schema if a.name in used)))
        for name, used in whole.used.items()
    }
    return _Builder(queries, streams, read, ages).run()


@dataclass
class _Builder:
    queries: SequenceOf[Query]
    streams: Mapping[str, Stream]
    shapes: Mapping[str, Shape]
    births: Mapping[str, int]
    used: dict[str, set[str]] = field(default_factory=dict)
    mops: dict[str, Mop] = field(default_factory=dict)
    published: dict[str, tuple[Channel, pa.DataType]] = field(default_factory=dict)
    member: str = ""

    def run(self) -> Plan:
        outlets = []
        for query in self.queries:
            self.member = query.id
            for output in query.outputs:
                channel = self.channel(lower(output.node), output.node.schema.names)
                time_type = self._time_type(output.node)
                outlets.append(
                    Outlet(
                        query.id, output.publish, channel.signature, output.node.schema, time_type
                    )
                )
                if output.publish is not None:
                    self.published[output.publish] = (channel, time_type)
        sources = {name: self.shapes[name] for name in self.used}
        return Plan(sources, tuple(self.mops.values()), tuple(outlets))

    def _time_type(self, node: Node) -> pa.DataType:
        """How results show their interval: as the sources do, if they agree."""
        if node.unit == TICKS:
            return pa.int64()
        types = {
            self.published[s][1] if s in self.published else _shown_time(self.streams[s])
            for s in reads(node)
        }
        return types.pop() if len(types) == 1 else TIMESTAMP

    def channel(self, node: Node, needed: Iterable[str]) -> Channel:
        """The channel of an expression, with at least the needed attributes."""
        wanted = frozenset(needed)
        match node:
            case Read():
                return self._read(node, wanted)
            case Select():
                return self._select(node, wanted)
            case Project():
                return self._project(node, wanted)
            case Union():
                return self._union(node, wanted)
            case Sequence() | Iterate():
                return self._pattern(node, tuple((n, n) for n in node.schema.names if n in wanted))
            case SameTime():
                return self._same_time(node)

    def _add(self, spec: Spec, inputs: tuple[Channel, ...], *said: object) -> Channel:
        """The m-op that does this, new or shared; `said` is what makes it what it is."""
        born = self.births.get(self.member, 0) if spec.stateful else 0
        text = repr((type(spec).__name__, said, tuple(c.signature for c in inputs), born))
        signature = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        known = self.mops.get(signature)
        if known is None:
            signatures = tuple(c.signature for c in inputs)
            self.mops[signature] = Mop(signature, spec, signatures, frozenset({self.member}))
        else:
            self._join(known)
        return Channel(signature, self.mops[signature].spec.output)

    def _join(self, mop: Mop) -> None:
        if self.member in mop.members:
            return
        self.mops[mop.signature] = replace(mop, members=mop.members | {self.member})

    def _read(self, node: Read, wanted: frozenset[str]) -> Channel:
        if node.stream in self.published:
            return self.published[node.stream][0]
        self.used.setdefault(node.stream, set()).update(wanted)
        return Channel(source_channel(node.stream), self.shapes[node.stream])

    def _select(self, node: Select, wanted: frozenset[str]) -> Channel:
        source = self.channel(node.input, wanted | _names(node.predicate))
        # The rows pass as they are: their layout is the input's, which the signature covers.
        return self._add(SelectSpec(source.shape, node.predicate), (source,), node.predicate)

    def _project(self, node: Project, wanted: frozenset[str]) -> Channel:
        items = tuple(item for item in node.items if item[0] in wanted)
        if isinstance(node.input, Sequence | Iterate) and all(isinstance(e, Ref) for _, e in items):
            picked = tuple((name, e.name) for name, e in items if isinstance(e, Ref))
            return self._pattern(node.input, picked)
        source = self.channel(node.input, {n for _, e in items for n in _names(e)})
        return self._add(ProjectSpec(source.shape, items), (source,), items)

    def _union(self, node: Union, wanted: frozenset[str]) -> Channel:
        names = tuple(n for n in node.schema.names if n in wanted)
        sides = tuple(self._exactly(side, names) for side in node.inputs)
        return self._add(UnionSpec(sides[0].shape), sides, names)

    def _exactly(self, node: Node, names: tuple[str, ...]) -> Channel:
        """A channel with just these attributes in this order."""
        source = self.channel(node, names)
        if source.shape.schema.names == names:
            return source
        items = tuple((n, Ref(Source.INPUT, n, node.schema.type_of(n))) for n in names)
        return self._add(ProjectSpec(source.shape, items), (source,), items)

    def _pattern(self, node: Sequence | Iterate, picked: Wanted) -> Channel:
        emit = tuple((name, _emitted(node, attribute)) for name, attribute in picked)
        rebind = node.rebind if isinstance(node, Iterate) else None
        aggregates = node.aggregates if isinstance(node, Iterate) else ()
        shown = {source for _, source in emit}
        aggregates = _needed_aggregates(node, aggregates, shown)
        expressions = [node.predicate, *([rebind] if rebind is not None else [])]
        expressions += [e for _, e in aggregates]
        first = _names(*expressions, sources=(Source.FIRST, Source.LAST))
        first |= {s[2:] for s in shown if s.startswith("f:")}
        second = _names(*expressions, sources=(Source.SECOND,))
        second |= {s[2:] for s in shown if s.startswith(("e:", "l:"))}
        second |= _names(*expressions, sources=(Source.LAST,))
        sides = (
            self.channel(node.first, first & set(node.first.schema.names)),
            self.channel(node.second, second & set(node.second.schema.names)),
        )
        spec = PatternSpec(
            sides[0].shape, sides[1].shape, node.predicate, rebind, aggregates, node.horizon, emit
        )
        return self._add(spec, sides, node.predicate, rebind, aggregates, node.horizon, emit)

    def _same_time(self, node: SameTime) -> Channel:
        order = tuple(n for n in node.input.schema.names if not n.startswith("__v"))
        needed = _names(*(arg for a in node.aggregates for arg in a.args))
        if any(a.function in ("max_by", "min_by") for a in node.aggregates):
            needed |= set(order)
        else:
            order = ()
        source = self.channel(node.input, needed)
        spec = SameTimeSpec(source.shape, node.aggregates, order)
        return self._add(spec, (source,), node.aggregates, order)


def _shown_time(stream: Stream) -> pa.DataType:
    type_ = stream.time_type
    return type_ if pa.types.is_timestamp(type_) else TIMESTAMP


def _names(
    *expressions: Expression, sources: tuple[Source, ...] = (Source.INPUT,)
) -> frozenset[str]:
    return frozenset(r.name for e in expressions for r in refs(e) if r.source in sources)


def _emitted(node: Sequence | Iterate, attribute: str) -> str:
    """Where an output attribute comes from, in the terms of `PatternSpec.emit`."""
    if isinstance(node, Sequence):
        position = node.names.index(attribute)
        names = node.first.schema.names
        if position < len(names):
            return f"f:{names[position]}"
        return f"e:{node.second.schema.names[position - len(names)]}"
    updated = {name for name, _ in node.aggregates}
    if attribute in node.second.schema or attribute in updated:
        return f"l:{attribute}"
    if attribute in node.first.schema:
        return f"f:{attribute}"
    assert attribute.endswith("_1")
    return f"f:{attribute[:-2]}"


def _needed_aggregates(
    node: Sequence | Iterate, aggregates: tuple[tuple[str, Expression], ...], shown: set[str]
) -> tuple[tuple[str, Expression], ...]:
    """Aggregates that are shown, or that some predicate or needed aggregate refers to."""
    if isinstance(node, Sequence):
        return ()
    needed = {s[2:] for s in shown if s.startswith("l:")}
    needed |= _names(node.predicate, node.rebind, sources=(Source.LAST,))
    while True:
        kept = tuple((n, e) for n, e in aggregates if n in needed)
        more = needed | _names(*(e for _, e in kept), sources=(Source.LAST,))
        if more == needed:
            return kept
        needed = more
