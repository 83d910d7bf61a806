"""A bound query -> its template: parameters replace constants.

Some constants must be the same in all queries of a template. Some decide what is computed (a
regular expression, the digits of round, the key of a map, the parts of a string). Some decide types
(`DECIMAL(10, 2)`). A fraction beside DUR may or may not bound it. These constants are *pinned*:
they stay in the template.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from lark import Token

from braid.algebra.bounds import bound_durations
from braid.algebra.documents import Documents
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
from braid.lang.bind.constant_traces import Step, Trace, Traced
from braid.lang.parse.problems import At
from braid.lang.templates.constant_replay import Misfit, Replay, replay

#: The arguments that are pinned, by function.
_PINNED = {"round": (1,), "regexp_like": (1,), "replace": (1, 2), "get_item": (1,)}

Outputs = tuple[Output, ...]


@dataclass(frozen=True)
class Lifted:
    """A template, the conversions from constants of a text to its parameters, and the checks.

    `pinned` are the constants in the template, by their place in the text.
    """

    template: Template
    replays: tuple[Replay, ...]
    guards: tuple[Replay, ...]
    pinned: frozenset[int]
    values: tuple[Any, ...]


def plain(outputs: Outputs) -> Outputs:
    """The outputs without traces of the text."""
    return tuple(Output(map_expressions(o.node, untraced), o.publish) for o in outputs)


def untraced(expression: Expression) -> Expression:
    return transform(expression, _forget)


def _forget(part: Expression) -> Expression | None:
    return Literal(part.value, part.type) if isinstance(part, Traced) else None


def lift(
    outputs: Outputs, bound: Outputs, traces: Sequence[Trace], text: Places, pinned: Collection[int]
) -> Lifted:
    """The template of a query with these constants; at least `pinned` stay in it.

    `outputs` come from the binder, `bound` is the final query. Nothing is lifted unless the
    template gives exactly `bound` for the query's own constants.
    """
    lifter = Lifter(text, pinned)
    walked = [node for o in outputs for node in walk_nodes(o.node)]
    lifter.look_at(
        (e for node in walked for e in expressions_of(node)),
        (key for node in walked for key in _keys(node)),
    )
    changed = tuple(
        Output(bound_durations(map_expressions(o.node, lifter.change)), o.publish) for o in outputs
    )
    found = lifter.found(traces)
    if found is not None:
        template = Template(changed, found.types)
        if template.instantiate(found.values) == bound:
            return Lifted(
                template,
                tuple(way.replay() for way in found.ways),
                tuple(way.replay() for way in found.guards),
                found.pinned,
                found.values,
            )
    return Lifted(Template(bound), (), (), frozenset(range(len(text.texts))), ())


class Places:
    """The places of the constants of a text, and the units of time after them.

    `periods` are the constants before a word that may be such a unit.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.texts: list[str] = []
        self.periods: list[int] = []
        self._units: list[str] = []
        self._spans: list[At] = []
        for i, token in enumerate(tokens):
            if token.type in ("NUMBER", "STRING"):
                self.texts.append(str(token))
                self._spans.append((token.start_pos or 0, token.end_pos or 0))
                after = tokens[i + 1] if i + 1 < len(tokens) else None
                if after is not None and after.type == "NAME":
                    self.periods.append(len(self._units))
                self._units.append("" if after is None else str(after))

    def of(self, trace: Trace) -> tuple[int, ...]:
        """The constants of the text from which a bound constant was read."""
        start, end = trace.at
        first = bisect_left(self._spans, (start, -1))
        last = bisect_right(self._spans, end, lo=first, key=lambda span: span[1])
        return tuple(range(first, last))

    def units(self, places: Sequence[int]) -> list[str]:
        return [self._units[place] for place in places]


@dataclass(frozen=True, eq=False, slots=True)
class Way:
    """The reading of a constant: the steps, the constants of the text, the units after them."""

    trace: Trace
    path: tuple[Step, ...]
    places: tuple[int, ...]
    units: tuple[str, ...]

    def replay(self, at: Sequence[int] | None = None) -> Replay:
        """Read it; `at` are the places of this text's constants in the given text."""
        places = self.places if at is None else [at[place] for place in self.places]
        return replay(self.trace, self.path, places, self.units)


class Found(NamedTuple):
    """The parameters of the constants, in the order of the text."""

    ways: tuple[Way, ...]
    types: tuple[pa.DataType, ...]
    guards: tuple[Way, ...]
    pinned: frozenset[int]
    values: tuple[Any, ...]


_Key = tuple[tuple[int, ...], bool, tuple[Step, ...]]


class Lifter:
    """A lifter of constants. It first looks at all expressions, then changes them."""

    def __init__(self, text: Places, pinned: Collection[int]) -> None:
        self._text = text
        self._pinned = set(pinned)
        self._literals: dict[_Key, Traced] = {}
        self._index: dict[_Key, int] = {}
        self._places: dict[Trace, tuple[int, ...]] = {}

    # --- pinned constants ---

    def look_at(self, expressions: Iterable[Expression], fixed: Iterable[Expression] = ()) -> None:
        """Find the constants that are pinned; so is a token that became no constant.

        Constants of `fixed` expressions are pinned.
        """
        seen: set[int] = set()
        for expression in expressions:
            self._look(expression, seen, fixed=False)
        for expression in fixed:
            self._look(expression, seen, fixed=True)
        self._pinned |= set(range(len(self._text.texts))) - seen
        several = [places for places, _, _ in self._literals if len(places) > 1]
        while more := [p for p in several if 0 < len(self._pinned.intersection(p)) < len(p)]:
            self._pinned.update(*more)
        lifted = [key for key in self._literals if self._pinned.isdisjoint(key[0])]
        lifted.sort(key=lambda key: key[0])
        self._index = {key: index for index, key in enumerate(lifted)}

    def _look(self, expression: Expression, seen: set[int], *, fixed: bool) -> None:
        if isinstance(expression, Traced):
            places = self._of(expression.trace)
            self._literals.setdefault(self._key(expression), expression)
            seen.update(places)
            if fixed:
                self._pinned.update(places)
        elif isinstance(expression, Call):
            fixed = fixed or is_vector(expression) or _measures_fraction(expression)
            own = _PINNED.get(expression.function, ())
            for i, arg in enumerate(expression.args):
                self._look(arg, seen, fixed=fixed or i in own)

    def _of(self, trace: Trace) -> tuple[int, ...]:
        if trace not in self._places:
            self._places[trace] = self._text.of(trace)
        return self._places[trace]

    def _key(self, part: Traced) -> _Key:
        return (self._of(part.trace), part.trace.negative, part.trace.path(part.step))

    # --- lifted constants ---

    def change(self, expression: Expression) -> Expression:
        return transform(expression, self._change)

    def _change(self, part: Expression) -> Expression | None:
        if not isinstance(part, Traced):
            return None
        index = self._index.get(self._key(part))
        return Literal(part.value, part.type) if index is None else Parameter(index, part.type)

    def found(self, traces: Sequence[Trace]) -> Found | None:
        """The parameters with the text's values; None if a second reading of them fails."""
        parts = [self._literals[key] for key in self._index]
        ways = tuple(self._way(p.trace, p.trace.path(p.step)) for p in parts)
        guards = tuple(self._guards(traces))
        texts = self._text.texts
        try:
            values = tuple(way.replay()(texts) for way in ways)
            for guard in guards:
                guard.replay()(texts)
        except Misfit:
            return None
        return Found(ways, tuple(p.type for p in parts), guards, frozenset(self._pinned), values)

    def _way(self, trace: Trace, path: tuple[Step, ...]) -> Way:
        places = self._of(trace)
        return Way(trace, path, places, tuple(self._text.units(places)))

    def _guards(self, traces: Sequence[Trace]) -> Iterator[Way]:
        """The checks: all other conversions of the lifted constants must have the same outcome."""
        known = {
            (places, negative, path[:length])
            for places, negative, path in self._index
            for length in range(1, len(path) + 1)
        }
        for trace in traces:
            places = self._of(trace)
            if not self._pinned.isdisjoint(places):
                continue
            for number in range(len(trace.steps)):
                path = trace.path(number)
                key = (places, trace.negative, path)
                if key not in known and not _is_certain(path):
                    known.add(key)
                    yield self._way(trace, path)


def _is_certain(path: Sequence[Step]) -> bool:
    """Whether the outcome of the last step is the same for every constant. Strings are never
    converted."""
    return path[-1].operation == "text" or (
        path[-1].operation == "fold" and path[0].operation == "text"
    )


def _measures_fraction(call: Call) -> bool:
    """Whether this compares DUR with a DOUBLE: the number decides whether it bounds DUR."""
    if call.function not in COMPARISONS:
        return False
    fraction = any(
        isinstance(arg, Literal) and kind_of(arg.type) is Kind.FLOAT for arg in call.args
    )
    return fraction and any(isinstance(part, Duration) for part in walk(call))


def _keys(node: Node) -> Iterator[Expression]:
    """The keys of groups. SELECT repeats them, so a constant in one has two places."""
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
        case Documents():
            yield from node.constants()
        case _:
            return
