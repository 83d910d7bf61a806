"""JSON documents as trees, by their definition, in plain Python over `json.loads`.

A document is one node without a name of its own, `$`. Below an object, each member is a node of the
member's name; but where a member's value is an array, each element is such a node. The elements
of an array that is the document, or itself an element, are called `item`. The value of a node is
the text of its scalar, or all those below it one after the other; null has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, NoReturn

from braid.algebra.documents import DOCUMENT, MOST_PLACES, Axis

_ITEM = "item"


@dataclass(frozen=True)
class _Object:
    members: list[tuple[str, Any]]


@dataclass(frozen=True)
class _Number:
    text: str


@dataclass(frozen=True)
class JsonNode:
    """A node of a document; `path`, the places of the nodes from the document down, tells it apart."""

    path: tuple[int, ...]
    name: str = field(compare=False)
    content: Any = field(compare=False)

    @property
    def children(self) -> list[JsonNode]:
        if isinstance(self.content, list):
            pairs = [(_ITEM, element) for element in self.content]
        elif isinstance(self.content, _Object):
            pairs = [
                (name, element)
                for name, value in self.content.members
                for element in (value if isinstance(value, list) else [value])
            ]
        else:
            pairs = []
        return [JsonNode((*self.path, k), *pair) for k, pair in enumerate(pairs)]

    @property
    def descendants(self) -> Iterator[JsonNode]:
        for child in self.children:
            yield child
            yield from child.descendants

    def reached(self, axis: Axis) -> Iterator[JsonNode]:
        if axis is Axis.CHILD:
            yield from self.children
        elif axis is Axis.DESCENDANT:
            yield from self.descendants

    @property
    def value(self) -> str:
        match self.content:
            case None:
                return ""
            case bool():
                return "true" if self.content else "false"
            case str():
                return self.content
            case _Number():
                return self.content.text
        return "".join(child.value for child in self.children)

    @property
    def shown(self) -> str:
        """The node as a document: an object with its name, or the whole document as it is."""
        text = _written(self.content)
        return text if not self.path else f"{{{_written(self.name)}: {text}}}"


def _written(content: Any) -> str:
    match content:
        case _Object():
            inner = (f"{_written(name)}: {_written(value)}" for name, value in content.members)
            return f"{{{', '.join(inner)}}}"
        case list():
            return f"[{', '.join(map(_written, content))}]"
        case _Number():
            return content.text
    return json.dumps(content, ensure_ascii=False)


def _number(text: str) -> _Number:
    """In decimals, without an exponent, and without zeros that say nothing."""
    number = Decimal(text)
    if number and abs(number.adjusted()) > MOST_PLACES and not text.lstrip("-").isdigit():
        raise ValueError("a number with too many places")
    plain = format(number, "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return _Number("0" if plain == "-0" else plain)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


@lru_cache(1024)
def parsed_json(text: str, deepest: int) -> JsonNode | None:
    """The node `$` of a document; None for a text that is none, or that is too deep."""
    try:
        content = json.loads(
            text,
            object_pairs_hook=_Object,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_no_number,
        )
        made = JsonNode((), DOCUMENT, content)
        "".join(one.name + one.value for one in [made, *made.descendants]).encode()
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return made if all(len(one.path) < deepest for one in made.descendants) else None
