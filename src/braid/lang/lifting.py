"""A bound query -> its template: constants out, parameters in.

Not every constant can differ between the queries of a template. Some decide what is computed and
not what it is compared with (a regular expression, the digits of round, the key of a map, what
a string is built from); some decide types (`DECIMAL(10, 2)`); a fraction beside DUR may or may
not bound it. These are *pinned*: they stay in the template, and queries that differ in them have
different templates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lark import Token

from braid.algebra.bounds import bound_durations
from braid.algebra.expressions import (
    Call,
    Duration,
    Expression,
    Literal,
    Parameter,
    transform,
    walk,
)
from braid.algebra.functions import COMPARISONS, is_vector
from braid.algebra.nodes import Iterate, Node, Project, SameTime, Select, walk_nodes
from braid.algebra.nodes import Sequence as NextNode
from braid.algebra.relations import GroupRows, ToStream, row_expressions, walk_rows
from braid.algebra.templates import Output, Template, map_expressions
from braid.algebra.types import Kind, kind_of
from braid.lang.problems import At
from braid.lang.replay import Misfit, Replay, replay
from braid.lang.tracing import Step, Trace, Traced

#: Arguments that must be the same for all queries of a template, by function.
_PINNED = {"round": (1,), "regexp_like": (1,), "replace": (1, 2), "get_item": (1,)}

Outputs = tuple[Output, ...]


@dataclass(frozen=True)
class Lifted:
    """A template, how the constants of a text become those of its parameters, and what to check.

    `pinned` are the constants, by their place in the text, that the template holds for.
    """

    template: Template
    replays: tuple[Replay, ...]
    guards: tuple[Replay, ...]
    pinned: frozenset[int]
    values: tuple[Any, ...]


def plain(outputs: Outputs) -> Outputs:
    """The outputs without any trace of the text."""
    return tuple(Output(map_expressions(o.node, without_trace), o.publish) for o in outputs)


def without_trace(expression: Expression) -> Expression:
    """An expression whose constants do not know where they come from."""

    def forget(part: Expression) -> Expression | None:
        return Literal(part.value, part.type) if isinstance(part, Traced) else None

    return transform(expression, forget)


def lift(
    outputs: Outputs, bound: Outputs, traces: Sequence[Trace], text: Places, pinned: Collection[int]
) -> Lifted:
    """The template of a query whose text has these constants; at least `pinned` stay in it.

    `outputs` are as the binder made them, `bound` is what the query must be in the end. If the
    template does not give exactly that back for the query's own constants, nothing is lifted.
    """
    lifter = _Lifter(text, pinned)
    lifter.pin(outputs)
    try:
        lifted = lifter.lift(outputs, traces)
        if lifted.template.instantiate(lifted.values) == bound:
            return lifted
    except Misfit:
        pass
    return Lifted(Template(bound), (), (), frozenset(range(len(text.texts))), ())


class Places:
    """Where the constants of a text stand, and the units of time after them."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.texts: list[str] = []
        self._units: list[str] = []
        self._spans: list[At] = []
        for i, token in enumerate(tokens):
            if token.type in ("NUMBER", "STRING"):
                self.texts.append(str(token))
                self._spans.append((token.start_pos or 0, token.end_pos or 0))
                self._units.append(str(tokens[i + 1]) if i + 1 < len(tokens) else "")

    def of(self, trace: Trace) -> tuple[int, ...]:
        """Which constants of the text a bound constant was read from."""
        start, end = trace.at
        inside = (i for i, (a, b) in enumerate(self._spans) if start <= a and b <= end)
        return tuple(inside)

    def units(self, places: Sequence[int]) -> list[str]:
        return [self._units[place] for place in places]


_Way = tuple[tuple[int, ...], bool, tuple[Step, ...]]


class _Lifter:
    def __init__(self, text: Places, pinned: Collection[int]) -> None:
        self._text = text
        self._pinned = set(pinned)
        self._ways: dict[_Way, int] = {}
        self._replays: list[Replay] = []
        self._types: list[pa.DataType] = []
        self._places: dict[Trace, tuple[int, ...]] = {}

    # --- what stays ---

    def pin(self, outputs: Outputs) -> None:
        """Find the constants that cannot be lifted; a token that is none of any is one too."""
        seen: set[int] = set()
        for output in outputs:
            for node in walk_nodes(output.node):
                for expression in expressions_of(node):
                    self._pin(expression, seen, fixed=False)
                for key in _keys(node):
                    self._pin(key, seen, fixed=True)
        self._pinned |= set(range(len(self._text.texts))) - seen

    def _pin(self, expression: Expression, seen: set[int], *, fixed: bool) -> None:
        if isinstance(expression, Traced):
            places = self._of(expression.trace)
            seen.update(places)
            if fixed:
                self._pinned.update(places)
        elif isinstance(expression, Call):
            fixed = fixed or is_vector(expression) or _measures_fraction(expression)
            own = _PINNED.get(expression.function, ())
            for i, arg in enumerate(expression.args):
                self._pin(arg, seen, fixed=fixed or i in own)

    def _of(self, trace: Trace) -> tuple[int, ...]:
        if trace not in self._places:
            self._places[trace] = self._text.of(trace)
        return self._places[trace]

    # --- what does not ---

    def lift(self, outputs: Outputs, traces: Sequence[Trace]) -> Lifted:
        changed = tuple(
            Output(
                bound_durations(map_expressions(o.node, lambda e: transform(e, self._change))),
                o.publish,
            )
            for o in outputs
        )
        guards = tuple(self._guards(traces))
        texts = self._text.texts
        values = tuple(read(texts) for read in self._replays)
        for guard in guards:
            guard(texts)
        template = Template(changed, tuple(self._types))
        return Lifted(template, tuple(self._replays), guards, frozenset(self._pinned), values)

    def _change(self, part: Expression) -> Expression | None:
        if not isinstance(part, Traced):
            return None
        places = self._of(part.trace)
        if self._pinned & set(places):
            self._pinned.update(places)
            return Literal(part.value, part.type)
        way = (places, part.trace.negative, part.trace.path(part.step))
        index = self._ways.get(way)
        if index is None:
            index = self._ways[way] = len(self._ways)
            self._replays.append(self._replay(part.trace, way[2]))
            self._types.append(part.type)
        return Parameter(index, part.type)

    def _replay(self, trace: Trace, path: Sequence[Step]) -> Replay:
        places = self._of(trace)
        return replay(trace, path, places, self._text.units(places))

    def _guards(self, traces: Sequence[Trace]) -> Iterator[Replay]:
        """Everything else that the binder saw of the lifted constants has to come out the same."""
        known = {
            (places, negative, path[:length])
            for places, negative, path in self._ways
            for length in range(1, len(path) + 1)
        }
        for trace in traces:
            places = self._of(trace)
            if self._pinned & set(places):
                continue
            for number in range(len(trace.steps)):
                path = trace.path(number)
                way = (places, trace.negative, path)
                if way not in known and not _is_certain(path):
                    known.add(way)
                    yield self._replay(trace, path)


def _is_certain(path: Sequence[Step]) -> bool:
    """Whether the last step comes out the same with every constant: strings are never converted."""
    return path[-1].operation == "text" or (
        path[-1].operation == "fold" and path[0].operation == "text"
    )


def _measures_fraction(call: Call) -> bool:
    """A comparison of DUR with a DOUBLE: whether it bounds DUR depends on the number."""
    if call.function not in COMPARISONS:
        return False
    fraction = any(
        isinstance(arg, Literal) and kind_of(arg.type) is Kind.FLOAT for arg in call.args
    )
    return fraction and any(isinstance(part, Duration) for part in walk(call))


def _keys(node: Node) -> Iterator[Expression]:
    """The keys of groups: SELECT has them again, so a constant in one stands at two places."""
    if isinstance(node, ToStream):
        for part in walk_rows(node.relation):
            if isinstance(part, GroupRows):
                yield from part.keys


def expressions_of(node: Node) -> Iterator[Expression]:
    """The expressions that an operator evaluates."""
    match node:
        case Select(predicate=predicate) | NextNode(predicate=predicate):
            yield predicate
        case Iterate():
            yield node.predicate
            yield node.rebind
            yield from (e for _, e in node.aggregates)
        case Project():
            yield from (e for _, e in node.items)
        case SameTime():
            yield from (arg for a in node.aggregates for arg in a.args)
        case ToStream():
            yield from row_expressions(node.relation)
        case _:
            return
