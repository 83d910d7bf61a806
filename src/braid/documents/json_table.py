"""A JSON document as the table of nodes that XML documents have.

The document itself is the node `$`. A member of an object is a node of its name; if it is an array,
each element is. Elements of an array that has no such name, because it is the document or an element
itself, are called `item`. Numbers are kept as texts: nothing of them is lost, and 1.0 is 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Any, NoReturn

from braid.algebra.documents import DEEPEST, DOCUMENT, MOST_PLACES
from braid.documents.xml_table import DocumentTable, Unreadable, check_depth, check_size

ITEM = "item"
#: In place of a part of a document: there is only the text before it.
_NOTHING = object()


class Number(str):
    """A number as it is written: without an exponent, and without zeros that say nothing."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """An object: members of one name follow each other as they were given."""

    __slots__ = ()


class JsonTable(DocumentTable):
    """Nodes in the order of the document; elements are what `json` has read."""

    __slots__ = ()

    def __init__(self, content: Any) -> None:
        super().__init__()
        self._walk(content)

    def _walk(self, content: Any) -> None:
        todo: list[tuple[str, Any, int, int]] = [(DOCUMENT, content, -1, 1)]
        while todo:
            name, element, parent, depth = todo.pop()
            check_depth(depth)
            number = len(self.elements)
            self.elements.append(element)
            self.names.append(name)
            self.parents.append(parent)
            if isinstance(element, list):
                self.values.append(None)
                below = [(n, e, number, depth + 1) for n, e in _below(element)]
                below.reverse()
                todo += below
            else:
                self.values.append(_text(element))

    def _texts(self, number: int) -> Iterable[str]:
        """The scalars below a node, which come right after it."""
        for below in range(number + 1, self.count):
            if self.parents[below] < number:
                return
            if not isinstance(self.elements[below], list):
                yield _text(self.elements[below])

    def shown(self, number: int) -> str:
        """An object with the name of the node; the whole document as it is."""
        text = written(self.elements[number])
        return f"{{{encode_basestring(self.names[number])}: {text}}}" if number else text


def _below(element: Any) -> Iterator[tuple[str, Any]]:
    """The nodes below an object or an array."""
    if not isinstance(element, Members):
        for one in element:
            yield ITEM, one
        return
    for name, value in element:
        if isinstance(value, list) and not isinstance(value, Members):
            for one in value:
                yield name, one
        else:
            yield name, value


def _text(scalar: str | bool | None) -> str:
    if isinstance(scalar, str):
        return scalar
    return "" if scalar is None else _dumped(scalar)


def written(content: Any) -> str:
    """What was read, as a text again; without recursion, since documents may be deep."""
    made: list[str] = []
    todo: list[tuple[str, Any]] = [("", content)]
    while todo:
        before, part = todo.pop()
        made.append(before)
        if part is _NOTHING:
            continue
        if isinstance(part, Members):
            inner = [(f"{encode_basestring(name)}: ", value) for name, value in part]
            made.append("{")
            todo.append(("}", _NOTHING))
        elif isinstance(part, list):
            inner = [("", value) for value in part]
            made.append("[")
            todo.append(("]", _NOTHING))
        else:
            made.append(str(part) if isinstance(part, Number) else _dumped(part))
            continue
        between = [(f", {text}" if k else text, value) for k, (text, value) in enumerate(inner)]
        todo += reversed(between)
    return "".join(made)


def _dumped(scalar: str | bool | None) -> str:
    return json.dumps(scalar, ensure_ascii=False)


# ---- reading ----


def _whole(text: str) -> Number:
    return Number("0" if text == "-0" else text)


def _decimal(text: str) -> Number:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise _too_long(text) from None
    if not number:
        return Number("0")
    if abs(number.adjusted()) > MOST_PLACES:
        raise _too_long(text)
    plain = format(number, "f")
    return Number(plain.rstrip("0").rstrip(".") if "." in plain else plain)


def _too_long(text: str) -> Unreadable:
    return Unreadable(f"the number {text[:40]} has more than {MOST_PLACES} places")


def _no_number(name: str) -> NoReturn:
    raise Unreadable(f"the document is not well-formed: {name} is no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=_whole, parse_float=_decimal, parse_constant=_no_number
)


def read_json(text: str) -> JsonTable:
    """The nodes of a document; raises `Unreadable`."""
    check_size(text)
    try:
        content = _DECODER.decode(text)
    except RecursionError:
        raise Unreadable(f"the document is deeper than {DEEPEST} levels") from None
    except ValueError as error:
        raise Unreadable(f"the document is not well-formed: {error}") from None
    table = JsonTable(content)
    if "\\u" in text:
        _check_characters(table)
    return table


def _check_characters(table: JsonTable) -> None:
    """An escape can stand for half a character, which no text can have."""
    try:
        "".join([*table.names, *filter(None, table.values)]).encode()
    except UnicodeEncodeError:
        raise Unreadable("the document is not well-formed: half a surrogate pair") from None
