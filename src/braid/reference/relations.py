"""Relations by their definitions: which rows each has at an instant, and streams made of them.

Time is discrete: microseconds, or ticks. A relation is a function from instants to multisets of
rows, held as lists in no particular order. It can change only at the *instants of change*: where
an event occurs (its `end`) and where one leaves a window by time. Between two of them it stays
as it is, so `R(t) - R(t - 1)` has to be looked at there only. Time goes on after the last event,
up to the end of time (2^62): everything leaves its window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from braid.algebra.expressions import Literal, Source, conjuncts
from braid.algebra.joins import inputs_of
from braid.algebra.relations import (
    Detection,
    DistinctRows,
    GroupRows,
    Join,
    KeepRows,
    MapRows,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    windows,
)
from braid.algebra.schema import Schema
from braid.reference.detection import detect
from braid.reference.events import Bindings, Event, Udfs
from braid.reference.groups import Overflow, group_aggregate
from braid.reference.ordering import order_key
from braid.reference.scalars import holds, value

Row = tuple[Any, ...]

#: The end of time: no event is later.
LAST = 2**62

#: The events of each window's stream, by the window's identity.
Contents = Mapping[int, Sequence[Event]]


def to_stream(
    node: ToStream, inputs: Sequence[Sequence[Event]], udfs: Udfs, until: int | None = None
) -> list[Event]:
    """The events of Istream, Dstream or Rstream; `inputs` are those of the streams it is made of.

    `until`: only what stands before this instant.
    """
    if isinstance(node.relation, Detection):
        return detect(node.relation, inputs, udfs, until)
    found = list(windows(node.relation))
    contents = {id(w): events for w, events in zip(found, inputs, strict=True)}
    occurring = {event.end for events in inputs for event in events}
    results: list[Event] = []
    before: list[Row] | None = None
    for instant in _instants_of_change(found, contents):
        if until is not None and instant >= until:
            break
        if before is None:
            before = rows_at(node.relation, instant - 1, contents, udfs)
        now = rows_at(node.relation, instant, contents, udfs)
        match node.kind:
            case StreamKind.ISTREAM:
                made = difference(now, before)
            case StreamKind.DSTREAM:
                made = difference(before, now)
            case StreamKind.RSTREAM:
                made = now if instant in occurring else []
            case StreamKind.DETECT:
                raise AssertionError("only a detection is detected")
        results += [Event(row, instant, instant) for row in made]
        before = now
    return results


def _instants_of_change(found: Sequence[Window], contents: Contents) -> list[int]:
    instants: set[int] = set()
    for window in found:
        for event in contents[id(window)]:
            instants.add(event.end)
            if window.kind in (WindowKind.RANGE, WindowKind.NOW):
                instants.add(event.end + _size(window) + 1)
    return sorted(instant for instant in instants if instant <= LAST)


def difference(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    """The multiset `left - right`: a row n times on the left and m times on the right is in it
    n - m times, or not at all. NULL equals NULL here, and NaN NaN."""
    taken = Counter(map(order_key, right))
    kept = []
    for row in left:
        key = order_key(row)
        if taken[key]:
            taken[key] -= 1
        else:
            kept.append(row)
    return kept


def rows_at(relation: Relation, instant: int, contents: Contents, udfs: Udfs) -> list[Row]:
    """The rows that a relation has at an instant."""
    match relation:
        case Window():
            return _window(relation, instant, contents[id(relation)])
        case KeepRows(input=below, predicate=predicate):
            return [
                row
                for row in rows_at(below, instant, contents, udfs)
                if holds(predicate, _bound(row, below.schema, udfs))
            ]
        case MapRows(input=below, items=items):
            return [
                tuple(value(item, _bound(row, below.schema, udfs)) for _, item in items)
                for row in rows_at(below, instant, contents, udfs)
            ]
        case Join():
            inputs = [rows_at(below, instant, contents, udfs) for below in relation.inputs]
            return list(_joined(relation, inputs, udfs))
        case GroupRows(input=below):
            rows = rows_at(below, instant, contents, udfs)
            try:
                return _grouped(relation, rows, udfs)
            except Overflow as error:
                raise Overflow(error.aggregate, instant) from None
        case DistinctRows(input=below):
            return list({order_key(r): r for r in rows_at(below, instant, contents, udfs)}.values())
        case Detection():
            raise AssertionError("a detection is a stream of answers, and no table")


def _bound(row: Row, schema: Schema, udfs: Udfs) -> Bindings:
    return Bindings({Source.INPUT: dict(zip(schema.names, row, strict=True))}, 0, udfs)


# ---- windows -----------------------------------------------------------------------------------


def _window(window: Window, instant: int, events: Sequence[Event]) -> list[Row]:
    occurred = [event for event in events if event.end <= instant]
    match window.kind:
        case WindowKind.UNBOUNDED:
            chosen = occurred
        case WindowKind.RANGE | WindowKind.NOW:
            chosen = [event for event in occurred if event.end >= instant - _size(window)]
        case WindowKind.ROWS:
            chosen = _last_rows(window, occurred)
    return [event.values for event in chosen]


def _size(window: Window) -> int:
    if window.size is None:
        return 0
    assert isinstance(window.size, Literal)
    size: int = window.size.value
    return size


def _last_rows(window: Window, occurred: Sequence[Event]) -> list[Event]:
    """The last `size` events of each partition. Events whose key is NULL are one partition."""
    partitions: dict[Any, list[Event]] = {}
    for event in occurred:
        row = event.row(window.input.schema)
        key = tuple(order_key(row[name]) for name in window.keys)
        partitions.setdefault(key, []).append(event)
    chosen = []
    for partition in partitions.values():
        partition.sort(key=lambda event: _order(window, event))
        chosen += partition[-_size(window) :]
    return chosen


def _order(window: Window, event: Event) -> tuple[Any, ...]:
    """By time; at one time by the sequence column, if there is one; then by all values."""
    row = event.row(window.input.schema)
    number = order_key(row[window.order]) if window.order is not None else ()
    return (event.end, number, order_key(event.values))


# ---- joins and groups --------------------------------------------------------------------------


def _joined(join: Join, inputs: Sequence[Sequence[Row]], udfs: Udfs) -> Iterator[Row]:
    """All combinations for which the predicate is true.

    A conjunct is looked at as soon as the inputs that it needs are there; it would be false or
    unknown, and so the whole predicate, whatever the others are.
    """
    names: list[str] = list(join.schema.names)
    ready: list[list[Any]] = [[] for _ in inputs]
    for part in conjuncts(join.predicate):
        ready[max(inputs_of(part), default=0)].append(part)

    def extended(row: Row, number: int) -> Iterator[Row]:
        if number == len(inputs):
            yield row
            return
        for more in inputs[number]:
            longer = row + more
            known = dict(zip(names, longer, strict=False))
            bindings = Bindings({Source.INPUT: known}, 0, udfs)
            if all(holds(part, bindings) for part in ready[number]):
                yield from extended(longer, number + 1)

    return extended((), 0)


def _grouped(relation: GroupRows, rows: Sequence[Row], udfs: Udfs) -> list[Row]:
    """One row a group; without keys there is one group, even of no rows."""
    groups: dict[Any, tuple[Row, list[Bindings]]] = {}
    if not relation.keys:
        groups[order_key(())] = ((), [])
    for row in rows:
        bindings = _bound(row, relation.input.schema, udfs)
        key = tuple(value(expression, bindings) for expression in relation.keys)
        groups.setdefault(order_key(key), (key, []))[1].append(bindings)
    return [
        key
        + tuple(
            group_aggregate(a, [tuple(value(arg, b) for arg in a.args) for b in members])
            for a in relation.aggregates
        )
        for key, members in groups.values()
    ]
