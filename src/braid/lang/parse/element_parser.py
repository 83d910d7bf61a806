"""Element constructors in SELECT: `<pair id="{x1}">text {x2}</pair>`, read by character.

As in XQuery, an element is written as it will look, with expressions in braces. The lexer hands
over at the first `<`, because text and tags have other characters than the language. The result is
*pieces*: the text between the expressions, well-formed and escaped. The expressions are ordinary
tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from braid.algebra.documents import DEEPEST
from braid.algebra.markup import NAME, NOT_IN_XML, escaped_attribute, escaped_text
from braid.lang.parse.problems import At, Problem

_NAME = re.compile(NAME)
_SPACE = re.compile(r"[ \t\r\n]*")
_REFERENCE = re.compile(r"&(?:#([0-9]+)|#x([0-9a-fA-F]+)|(\w+));")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
#: The parts of XML that constructors don't support, by their first characters.
_LEFT_OUT = {"<!--": "a comment", "<![CDATA[": "a CDATA section", "<?": "a processing instruction"}
_BAD_CHARACTER = re.compile(NOT_IN_XML)
_SPACES = frozenset("\t\n\r")
_LARGEST_CHARACTER = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of a constructor between two expressions.

    `in_attribute`: the next expression is part of an attribute's value.
    """

    text: str
    at: At
    in_attribute: bool = False


class MarkupReader:
    """A reader of one constructor. The caller reads the expressions between its pieces."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self.position = start
        self._open: list[tuple[str, int]] = []

    def pieces(self, skip: Callable[[int], int]) -> Iterator[Piece]:
        """The pieces; raises `Problem`. `skip` returns the end of the expression that begins at a
        place."""
        found: list[str] = []
        begin = self.position
        for part in self._parts():
            if isinstance(part, str):
                found.append(part)
                continue
            yield Piece("".join(found), (begin, self.position), part)
            self.position = begin = skip(self.position + 1) + 1
            found = []
        yield Piece("".join(found), (begin, self.position))

    def _parts(self) -> Iterator[str | bool]:
        """The texts, and for each expression whether it is part of an attribute."""
        yield from self._tag()
        while self._open:
            yield from self._content()

    # ---- content ----

    def _content(self) -> Iterator[str | bool]:
        """The text up to the next tag or expression, and that tag or expression."""
        text, kept = self._run("<{")
        if kept:
            yield escaped_text(text)
        here = self.position
        if here >= len(self._text):
            name, at = self._open[-1]
            raise _wrong(f"<{name}> is never closed", (at, at + len(name) + 1), f"write </{name}>")
        if self._text[here] == "{":
            yield False
        elif self._text.startswith("</", here):
            yield self._end()
        else:
            for begin, what in _LEFT_OUT.items():
                if self._text.startswith(begin, here):
                    raise _unsupported(what, (here, here + len(begin)))
            if len(self._open) == DEEPEST:
                raise _wrong(f"more than {DEEPEST} elements inside each other", (here, here + 1))
            yield from self._tag()

    def _run(self, ends: str, quote: str = "") -> tuple[str, bool]:
        """Text up to one of some characters, and whether it is more than space between tags."""
        made: list[str] = []
        begin = self.position
        text = self._text
        written = False
        while self.position < len(text):
            here = self.position
            character = text[here]
            if character in "{}" and text.startswith(character * 2, here):
                written = True
                self.position += 2
            elif character in ends:
                break
            elif character == quote:
                if not text.startswith(quote * 2, here):
                    break
                self.position += 2
            elif character == "}":
                raise _wrong("this } closes nothing", (here, here + 1), "write }} for a brace")
            elif character == "&":
                made.append(self._reference())
                written = True
                continue
            elif _BAD_CHARACTER.match(character):
                raise _not_in_xml(f"U+{ord(character):04X}", (here, here + 1))
            else:
                self.position += 1 + text.startswith("\r\n", here)
                if character in _SPACES:  # as a reader of the document would see them
                    character = " " if quote else "\n" if character == "\r" else character
            made.append(character)
        return "".join(made), written or not text[begin : self.position].isspace()

    def _reference(self) -> str:
        here = self.position
        match = _REFERENCE.match(self._text, here)
        if match is None:
            raise _wrong("this & begins nothing", (here, here + 1), "write &amp; for one")
        self.position = match.end()
        if match[3] is not None:
            if match[3] not in _ENTITIES:
                hint = (
                    f"there are {', '.join(f'&{name};' for name in _ENTITIES)} and numbers: &#10;"
                )
                raise _wrong(f"there is no {match[0]}", match.span(), hint)
            return _ENTITIES[match[3]]
        number = int(match[1]) if match[1] else int(match[2], 16)
        surrogate = 0xD800 <= number < 0xE000
        if number > _LARGEST_CHARACTER or surrogate or _BAD_CHARACTER.match(chr(number)):
            raise _not_in_xml(match[0], match.span())
        return chr(number)

    # ---- tags ----

    def _tag(self) -> Iterator[str | bool]:
        """The start tag of an element, with its attributes."""
        here = self.position
        self.position += 1
        name = self._name("the name of an element")
        yield f"<{name}"
        known: set[str] = set()
        while True:
            space = self._space()
            if self._take("/>"):
                yield "/>"
                return
            if self._take(">"):
                yield ">"
                self._open.append((name, here))
                return
            if not space or self.position >= len(self._text):
                hint = 'a tag is <name attribute="value">, closed by > or />'
                raise _wrong(f"the tag <{name} is never closed", (here, here + 1 + len(name)), hint)
            yield from self._attribute(known)

    def _attribute(self, known: set[str]) -> Iterator[str | bool]:
        here = self.position
        name = self._name("the name of an attribute")
        at = (here, self.position)
        if name == "xmlns":
            raise _unsupported("a namespace", at)
        if name in known:
            raise _wrong(f"there are two attributes {name}", at)
        known.add(name)
        self._space()
        equals = self._take("=")
        self._space()
        quote = self._text[self.position : self.position + 1]
        if not equals or quote not in ("'", '"'):
            hint = f'write {name}="text", or {name}="{{x}}"'
            raise _wrong(f"the attribute {name} has no value in quotes", at, hint)
        self.position += 1
        yield f' {name}="'
        while True:
            text, _ = self._run("{<", quote)
            yield escaped_attribute(text)
            if self.position >= len(self._text):
                raise _wrong(f"the value of {name} is never closed", at, f"close it with {quote}")
            if self._text[self.position] == "<":
                there = (self.position, self.position + 1)
                raise _wrong("< cannot stand in an attribute", there, "write &lt;")
            if self._text[self.position] == quote:
                self.position += 1
                yield '"'
                return
            yield True

    def _end(self) -> str:
        here = self.position
        self.position += 2
        name, _ = self._open.pop()
        closed = self._name("the name of an element")
        self._space()
        if closed != name or not self._take(">"):
            raise _wrong(f"</{closed}> does not close <{name}>", (here, self.position))
        return f"</{name}>"

    # ---- characters ----

    def _name(self, what: str) -> str:
        here = self.position
        match = _NAME.match(self._text, here)
        if match is None:
            raise _wrong(f"expected {what}", (here, here + 1))
        self.position = match.end()
        if self._text.startswith(":", self.position):
            raise _unsupported(f"the prefix {match[0]}:", match.span())
        return match[0]

    def _space(self) -> bool:
        match = _SPACE.match(self._text, self.position)
        begin, self.position = self.position, match.end() if match else self.position
        return self.position > begin

    def _take(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self.position):
            self.position += len(wanted)
            return True
        return False


def begins_markup(text: str, position: int) -> bool:
    """Whether the `<` at a place begins an element constructor, as an item of SELECT can."""
    return _NAME.match(text, position + 1) is not None


def _wrong(message: str, at: At, hint: str | None = None) -> Problem:
    return Problem("E233", message, at, hint)


def _unsupported(what: str, at: At) -> Problem:
    hint = "supported are elements, attributes, text, {expressions} and references such as &amp;"
    return Problem("E234", f"{what} is not supported in an element constructor", at, hint)


def _not_in_xml(what: str, at: At) -> Problem:
    return _wrong(f"{what} is no character of XML", at, "leave it out")
