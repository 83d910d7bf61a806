"""Outlines in parts: the predicates of a query, and the frame around them.

Where queries ask about different attributes, each has an outline of its own, but the same few
predicates stand in them again and again:

    FROM FILTER{a = 1 AND c > 2}(FILTER{b = 3}(S) NEXT{DUR <= 4} S)
    frame      FROM FILTER{ }(FILTER{ }(S) NEXT{ } S)
    fragments  a = 1 AND c > 2,  b = 3,  DUR <= 4

What a predicate means depends on the frame, which says what its names stand for, and on nothing
else; and no predicate decides about the names that another one sees. So a frame is bound once with
nothing in it, each fragment once for each place in which it stands, and a query whose parts are all
known is put together from what these became. Constants are of one part: which of them can
differ is found for each part by itself.

Whatever is not understood here (a part that does not parse or bind, quoted names) is left to
those who look at the whole text, and can say what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_HELD = re.compile(r"(?<!\w)(?:(?i:(FOLD))|(?i:FILTER|NEXT))\s*\{([^{}]*)\}")
_MARK = re.compile("\0[ifs]")
#: The placeholders in a frame for a predicate and for the name of the published stream.
HOLE, NAME = "\0h", "\0p"


class Fragment(NamedTuple):
    """A predicate: its key, and its constants of the text."""

    key: str
    first: int
    last: int


class Cut(NamedTuple):
    """An outline in parts; `places` are the constants of the frame."""

    frame: str
    places: tuple[int, ...]
    fragments: tuple[Fragment, ...]


def cut(key: str) -> Cut | None:
    """The parts of an outline; None if it has no predicate, or if the end of one is unclear."""
    if "`" in key:
        return None
    frame: list[str] = []
    places: list[int] = []
    fragments: list[Fragment] = []
    position = count = 0
    for start, end in _predicates(key):
        before = key[position:start]
        own = before.count("\0")
        places.extend(range(count, count + own))
        count += own
        inside = key[start:end]
        own = inside.count("\0")
        fragments.append(Fragment(inside, count, count + own))
        count += own
        frame.append(before)
        position = end
    if not fragments:
        return None
    rest = key[position:]
    own = rest.count("\0") - rest.count(NAME)
    places.extend(range(count, count + own))
    frame.append(rest)
    return Cut(HOLE.join(frame), tuple(places), tuple(fragments))


def _predicates(key: str) -> Iterator[tuple[int, int]]:
    """The places of predicates, without the blanks around them."""
    for match in _HELD.finditer(key):
        start, end = match.span(2)
        sides = [(start, end)] if match[1] is None else _first_two(key, start, end)
        for begin, stop in sides:
            inside = key[begin:stop]
            bare = inside.strip()
            if bare:
                begin += len(inside) - len(inside.lstrip())
                yield begin, begin + len(bare)


def _first_two(key: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The two predicates of FOLD. Aggregates follow its second comma."""
    depth, begin, found = 0, start, 0
    for position in range(start, end):
        character = key[position]
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0:
            yield begin, position
            begin, found = position + 1, found + 1
            if found == 2:
                return
    yield begin, end


def written(key: str, texts: Iterable[str]) -> str:
    """The text of a part with these constants."""
    each = iter(texts)
    return _MARK.sub(lambda _: next(each), key)
