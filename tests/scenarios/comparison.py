"""Streams are multisets: how two of them are compared, and how a difference is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

from braid.reference import Event, order_key


def normal(value: Any) -> Hashable:
    """Equal for values that are equal in the language: NaN is NaN, -0.0 is 0.0."""
    return order_key(value)


def multiset(events: Iterable[Event]) -> Counter[Hashable]:
    return Counter((normal(e.values), e.start, e.end) for e in events)


def assert_same(actual: Iterable[Event], expected: Iterable[Event], what: str) -> None:
    actual, expected = list(actual), list(expected)
    if multiset(actual) == multiset(expected):
        return
    raise AssertionError(f"{what}:\n{difference(actual, expected)}")


def difference(actual: list[Event], expected: list[Event]) -> str:
    got, wanted = multiset(actual), multiset(expected)
    lines = [f"  missing:  {show(e)}" for e in _left_over(expected, wanted - got)]
    lines += [f"  too much: {show(e)}" for e in _left_over(actual, got - wanted)]
    return "\n".join(lines)


def show(event: Event) -> str:
    return f"<{', '.join(map(repr, event.values))}; {event.start}, {event.end}>"


def _left_over(events: list[Event], counts: Counter[Hashable]) -> list[Event]:
    left = counts.copy()
    found = []
    for event in sorted(events, key=lambda e: (e.end, e.start)):
        key = (normal(event.values), event.start, event.end)
        if left[key] > 0:
            left[key] -= 1
            found.append(event)
    return found
