"""Queries as automata: the translation of linear-plus expressions, for `explain` and as a check.

An expression is *linear-plus* if the second input of every NEXT and FOLD is a base stream under
unary operators. Such an expression is one automaton, acyclic but for self-loops: a state for
each NEXT and FOLD, where instances wait, and from it

- a *filter* edge: events that do not satisfy the filter predicate leave the instance as it is;
- for FOLD a *rebind* edge: an event that satisfies its predicate renews the instance;
- a *forward* edge to the next state, with a schema map: what the instance becomes there.

Unary operators above a NEXT or FOLD become part of its forward edge, those on its second input
part of the filter predicate. Whatever is not linear-plus is cut at the second input: the part
there becomes an automaton of its own, whose output stream the edge reads (resubscription).

Each edge keeps its predicate as conjuncts, and the three invariants of Cayuga automata are
checked on them: forward implies filter, forward implies rebind, rebind implies filter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from braid.algebra.documents import Documents
from braid.algebra.expressions import Call, Duration, Expression, Ref, Source, conjuncts, transform
from braid.algebra.nodes import (
    Extension,
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
)
from braid.algebra.relations import ToStream
from braid.algebra.text import show

#: The name by which an edge predicate refers to the duration of the event itself.
EVENT_DURATION = "DUR"

Items = tuple[tuple[str, Expression], ...]


class Kind(Enum):
    FILTER = "filter"
    REBIND = "rebind"
    FORWARD = "forward"


@dataclass(frozen=True)
class Edge:
    """`conjuncts` must all hold; `items` is the schema map (none on a filter edge)."""

    kind: Kind
    source: int
    target: int
    conjuncts: tuple[Expression, ...]
    items: Items = ()


@dataclass
class Automaton:
    """States are numbered: each but the last reads a stream; several may be start states.

    `streams[q]` is the stream that all edges out of q read; `names[q]` the schema of instances.
    """

    name: str
    streams: dict[int, str] = field(default_factory=dict)
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    end: int = 0
    edges: list[Edge] = field(default_factory=list)
    parts: list[Automaton] = field(default_factory=list)

    def check(self) -> None:
        """The invariants on the edges of every state that has a filter predicate."""
        for state in self.streams:
            out = [e for e in self.edges if e.source == state]
            filters = [set(e.conjuncts) for e in out if e.kind is Kind.FILTER]
            rebinds = [set(e.conjuncts) for e in out if e.kind is Kind.REBIND]
            forwards = [set(e.conjuncts) for e in out if e.kind is Kind.FORWARD]
            assert len(filters) <= 1 and len(rebinds) <= 1, "one filter and one rebind edge a state"  # noqa: PT018
            for filter_ in filters:
                assert all(filter_ <= forward for forward in forwards), "forward implies filter"
                assert all(filter_ <= rebind for rebind in rebinds), "rebind implies filter"
            for rebind in rebinds:
                assert all(rebind <= forward for forward in forwards), "forward implies rebind"


def translate(node: Node, name: str = "query") -> Automaton:
    """The automaton of an expression, with those of its complex streams as `parts`."""
    automaton = Automaton(name)
    _Translation(automaton).run(node)
    for each in (automaton, *automaton.parts):
        each.check()
    return automaton


@dataclass(frozen=True)
class _Open:
    """Edges into the state that is being built: where they start and what they carry so far."""

    kind: Kind
    source: int
    conjuncts: tuple[Expression, ...]
    items: Items


class _Translation:
    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton

    def run(self, node: Node) -> None:
        opened = self._open(node)
        self.automaton.end = self._state(None, node.schema.names)
        self._close(opened, self.automaton.end)

    def _state(self, stream: str | None, names: tuple[str, ...]) -> int:
        number = len(self.automaton.names)
        self.automaton.names[number] = names
        if stream is not None:
            self.automaton.streams[number] = stream
        return number

    def _close(self, opened: list[_Open], target: int) -> None:
        for edge in opened:
            self.automaton.edges.append(
                Edge(edge.kind, edge.source, target, edge.conjuncts, edge.items)
            )

    def _open(self, node: Node) -> list[_Open]:
        """The forward edges that carry the node's events, still without a target."""
        match node:
            case Read():
                start = self._state(node.stream, ())
                self.automaton.starts.append(start)
                return [_Open(Kind.FORWARD, start, (), _own(node))]
            case Select():
                return [_selected(e, node, self._is_start(e)) for e in self._open(node.input)]
            case Project():
                return [_projected(e, node, self._is_start(e)) for e in self._open(node.input)]
            case Union():
                return self._open(node.first) + self._open(node.second)
            case Sequence() | Iterate():
                return self._binary(node)
            case SameTime() | ToStream() | Documents() | Extension():
                return self._open(self._complex(node))

    def _is_start(self, edge: _Open) -> bool:
        return edge.source in self.automaton.starts

    def _binary(self, node: Sequence | Iterate) -> list[_Open]:
        opened = self._open(node.first)
        second, event_items, event_conjuncts = self._second(node.second)
        state = self._state(second.stream, _instance_names(node))
        if isinstance(node, Iterate):
            opened = [_initialised(edge, node) for edge in opened]
        self._close(opened, state)
        substitute = _substitution(dict(event_items))
        filter_ = (*event_conjuncts, *map(substitute, conjuncts(node.predicate)))
        self.automaton.edges.append(Edge(Kind.FILTER, state, state, filter_))
        if isinstance(node, Sequence):
            return [_Open(Kind.FORWARD, state, filter_, _sequence_items(node, substitute))]
        rebind = (*filter_, *map(substitute, conjuncts(node.rebind)))
        renewed = tuple((n, substitute(e)) for n, e in _renewed(node))
        self.automaton.edges.append(Edge(Kind.REBIND, state, state, rebind, renewed))
        return [_Open(Kind.FORWARD, state, rebind, _iterate_items(node, dict(renewed)))]

    def _second(self, node: Node) -> tuple[Read, Items, tuple[Expression, ...]]:
        """A second input as a stream, what its unary operators compute, and what they ask."""
        match node:
            case Read():
                return node, _own(node), ()
            case Select():
                read, items, asked = self._second(node.input)
                asks = map(_substitution(dict(items), event=True), conjuncts(node.predicate))
                return read, items, (*asked, *asks)
            case Project():
                read, items, asked = self._second(node.input)
                substitute = _substitution(dict(items), event=True)
                return read, tuple((n, substitute(e)) for n, e in node.items), asked
            case _:
                return self._second(self._complex(node))

    def _complex(self, node: Node) -> Read:
        """Cut here: the node becomes a stream that an automaton of its own produces."""
        name = f"{self.automaton.name}#{len(self.automaton.parts) + 1}"
        if isinstance(node, SameTime):
            part = Automaton(f"SAMETIME over {name}")
            self.automaton.parts.append(part)
            _Translation(part).run(node.input)
        elif isinstance(node, ToStream | Documents):
            for input_ in node.inputs:
                part = Automaton(f"{_word(node)} over {name}")
                self.automaton.parts.append(part)
                _Translation(part).run(input_)
        else:
            part = Automaton(name)
            self.automaton.parts.append(part)
            _Translation(part).run(node)
        return Read(name, node.schema, node.unit)


def _word(node: ToStream | Documents) -> str:
    return "documents" if isinstance(node, Documents) else node.kind.value


def _own(node: Read) -> Items:
    """An event's own attributes, as the edge that reads it sees them."""
    return tuple((a.name, Ref(Source.SECOND, a.name, a.type)) for a in node.schema)


def _substitution(
    items: dict[str, Expression], *, event: bool = False
) -> Callable[[Expression], Expression]:
    """Replace references to the event by what computes them; DUR of the event itself if `event`."""

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Ref) and part.source in (Source.SECOND, Source.INPUT):
            return items.get(part.name, part)
        if event and isinstance(part, Duration):
            return Ref(Source.SECOND, EVENT_DURATION, part.type)
        return None

    return lambda expression: transform(expression, change)


def _selected(edge: _Open, node: Select, start: bool) -> _Open:
    substitute = _substitution(dict(edge.items), event=start)
    asks = tuple(map(substitute, conjuncts(node.predicate)))
    return _Open(edge.kind, edge.source, (*edge.conjuncts, *asks), edge.items)


def _projected(edge: _Open, node: Project, start: bool) -> _Open:
    substitute = _substitution(dict(edge.items), event=start)
    items = tuple((name, substitute(e)) for name, e in node.items)
    return _Open(edge.kind, edge.source, edge.conjuncts, items)


def _instance_names(node: Sequence | Iterate) -> tuple[str, ...]:
    names = node.first.schema.names
    return (
        (*names, *(f"$.{n}" for n in node.last_schema.names))
        if isinstance(node, Iterate)
        else names
    )


def _initialised(edge: _Open, node: Iterate) -> _Open:
    """FOLD starts with the first event's own values as those of the last iteration."""
    values = dict(edge.items)
    last = tuple((f"$.{name}", values[name]) for name in node.last_schema.names)
    return _Open(edge.kind, edge.source, edge.conjuncts, (*edge.items, *last))


def _sequence_items(node: Sequence, substitute: Callable[[Expression], Expression]) -> Items:
    first = [Ref(Source.FIRST, a.name, a.type) for a in node.first.schema]
    second = [substitute(Ref(Source.SECOND, a.name, a.type)) for a in node.second.schema]
    return tuple(zip(node.names, (*first, *second), strict=True))


def _renewed(node: Iterate) -> Items:
    """What an iteration makes of an instance."""
    aggregates = dict(node.aggregates)
    first: Items = tuple((a.name, Ref(Source.FIRST, a.name, a.type)) for a in node.first.schema)
    last = tuple(
        (f"$.{a.name}", aggregates.get(a.name, Ref(Source.SECOND, a.name, a.type)))
        for a in node.last_schema
    )
    return (*first, *last)


def _iterate_items(node: Iterate, renewed: dict[str, Expression]) -> Items:
    updated = {name for name, _ in node.aggregates}
    items: list[tuple[str, Expression]] = []
    for attribute in node.first.schema:
        name = attribute.name
        if name in node.second.schema:
            items.append((f"{name}_1", renewed[name]))
        else:
            items.append((name, renewed[f"$.{name}"] if name in updated else renewed[name]))
    items += [(n, renewed[f"$.{n}"]) for n in node.second.schema.names]
    known = {n for n, _ in items}
    items += [(n, e) for n, e in node.aggregates if n not in known]
    return tuple(items)


def describe(automaton: Automaton) -> str:
    """States and edges as text."""
    lines = [f"automaton {automaton.name}"]
    for state, names in automaton.names.items():
        role = (
            "start" if state in automaton.starts else "end" if state == automaton.end else "state"
        )
        reads = f" reads {automaton.streams[state]}" if state in automaton.streams else ""
        lines.append(f"  {role} q{state}{reads}" + (f": {', '.join(names)}" if names else ""))
        for edge in (e for e in automaton.edges if e.source == state):
            asked = " AND ".join(_inner(c) for c in edge.conjuncts) or "TRUE"
            if edge.kind is Kind.FILTER:
                lines.append(f"    passes over what is not: {asked}")
            else:
                lines.append(f"    {edge.kind.value} to q{edge.target} if {asked}")
    for part in automaton.parts:
        lines.append(describe(part))
    return "\n".join(lines)


def _inner(expression: Expression) -> str:
    text = show(expression)
    return f"({text})" if isinstance(expression, Call) and expression.function == "or" else text
