"""Queries that pick attributes of a pattern: their templates follow from the one that shows all.

    SELECT Name, Price AS high FROM FILTER{...}(S NEXT{...} S)
    -> SELECT * FROM FILTER{...}(S NEXT{...} S), of which Name and Price AS high

A list of plain names decides nothing but what is shown. So queries by the thousand that each show
other attributes need not be parsed and bound each: what is below is known after the second of them.
Whatever is not such a list, or does not name attributes of the pattern, is left to those who look at
the whole text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from braid.algebra.expressions import Ref, Source
from braid.algebra.nodes import Iterate, Node, Project, Select, Sequence
from braid.lang.parse.tokens import KEYWORDS
from braid.lang.templates.outlines import Outline

_NAME = r"[^\W\d]\w*+"
_ITEM = rf"({_NAME})(?:\s+(?i:AS)\s+({_NAME}))?"
_ITEMS = re.compile(_ITEM)
_LIST = re.compile(rf"(?i:SELECT)\s+({_ITEM}(?:\s*,\s*{_ITEM})*+)\s+(?=(?i:FROM)\b)")


class Picked(NamedTuple):
    """The outline of the query that shows everything; each attribute that is shown, and its name."""

    everything: Outline
    items: tuple[tuple[str, str], ...]


def picked(outline: Outline) -> Picked | None:
    """An outline that begins with a list of names, taken apart."""
    match = _LIST.match(outline.key)
    if match is None or outline.mode is not None:
        return None
    items = tuple((name, shown or name) for name, shown in _ITEMS.findall(match[1]))
    words = {word.upper() for item in items for word in item}
    if not words.isdisjoint(KEYWORDS) or len({shown for _, shown in items}) < len(items):
        return None
    everything = Outline(
        "SELECT * " + outline.key[match.end() :], outline.texts, outline.start, outline.end
    )
    everything.name, everything.publish = outline.name, outline.publish
    return Picked(everything, items)


def picking(node: Node, items: tuple[tuple[str, str], ...]) -> Project | None:
    """The attributes of a pattern that are picked; None if it is no pattern, or has not all of them."""
    below = node
    while isinstance(below, Select):
        below = below.input
    if not isinstance(below, Sequence | Iterate) or any(n not in node.schema for n, _ in items):
        return None
    types = node.schema
    return Project(node, tuple((s, Ref(Source.INPUT, n, types.type_of(n))) for n, s in items))
