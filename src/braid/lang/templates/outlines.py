"""Outlines: statements without their constants, found without a parse.

One regular expression cuts a text at its numbers, strings and comments. The text between them, with
the kinds of the cuts, is the outline's key. The cuts are where the lexer has them, so texts with
the same key have the same tokens except for constants. The name in `CREATE QUERY name AS` and that
of a last `PUBLISH name` are cut out too.

An outline doesn't decide whether a text is valid. A key is useful after a text with the key was
parsed and bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from braid.lang.parse.limits import MAX_DIGITS, MAX_OUTLINE
from braid.lang.parse.problems import At
from braid.lang.parse.tokens import KEYWORDS, Piece, piece_at, unquote

_NAME = r"[^\W\d]\w*+|`(?:[^`\n]|``)++`"
_SKIP = re.compile(r"(?:\s++|--[^\n]*+)*+")
_MODE = r"(?i:CONSTRAINTS)\s+(?i:(EXACT|MONITORED|OFF))\s+"
_HEAD = re.compile(rf"(?i:CREATE)\s+(?i:QUERY)\s+({_NAME})\s+(?:{_MODE})?(?i:AS)\b\s*+")
_TAIL = re.compile(rf"(?<!\w)(?i:PUBLISH)\s+({_NAME})\Z")

#: A quote right after a word is a prime of it (`x5'`), unless a string can follow the word.
_PRIME = r"(?<=\w)" + "".join(rf"(?<!\b(?i:{word}))" for word in KEYWORDS) + "'"
#: Everything up to the next constant, and the constant: a whole number, another number, a string;
#: or a comment, the end of the statement, a quote that is never closed, or the placeholder of
#: constants.
_CUT = re.compile(
    rf"""
    ( [^\d'"`;.$\-\0]*+
      (?: (?: (?<=\w)\d++ | {_PRIME} | -(?!-) | \.(?!\d) | \$\d*+ | `(?:[^`\n]|``)++` ) [^\d'"`;.$\-\0]*+ )*+ )
    (?: (\d++(?!\.\d|[eE][+-]?\d))
      | ((?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)
      | ('(?:[^'\n]|'')*+'|"(?:[^"\n]|"")*+")
      | (--[^\n]*+)
      | (;)
      | (.)
      | \Z )
    """,
    re.VERBOSE,
)
_STRING, _COMMENT, _OPEN = 4, 5, 7
#: The places where an element constructor may begin.
_MARKUP = re.compile(r"(?:,|\b(?i:SELECT|DISTINCT))(?:\s++|--[^\n]*+)*+<[^\W\d]")
#: The placeholders of constants in a key, by the group of the match. No text that parses has this
#: character.
_MARKS = ("", "", "\0i", "\0f", "\0s")


class Outline:
    """A statement cut at its constants.

    `texts` are the constants as written; `name` that of CREATE QUERY, which is at `named`;
    `publish` the name that the query publishes at its end; `mode` the mode of CONSTRAINTS, which is
    part of the key.
    """

    __slots__ = ("end", "key", "mode", "name", "named", "publish", "start", "texts")

    def __init__(self, key: str, texts: list[str], start: int, end: int) -> None:
        self.key = key
        self.texts = texts
        self.start = start
        self.end = end
        self.name: str | None = None
        self.named: At | None = None
        self.publish: str | None = None
        self.mode: str | None = None


def outlines(text: str) -> Iterator[Outline | Piece]:
    """The statements of a text, each as an outline, or as tokens if it cannot be cut."""
    position = 0
    while True:
        position = _begin(text, position)
        if position == len(text):
            return
        outline, end = _outline(text, position)
        if outline is None:
            piece, position = piece_at(text, position)
            if piece is not None:
                yield piece
            continue
        if outline.end > outline.start:
            yield outline
        position = end


def outline_of(text: str) -> Outline | None:
    """The outline of a text with one statement; None if it is not one, or cannot be cut."""
    outline, end = _outline(text, _begin(text, 0))
    return outline if outline is not None and _begin(text, end) == len(text) else None


def _begin(text: str, position: int) -> int:
    match = _SKIP.match(text, position)
    return match.end() if match else position


def _outline(text: str, start: int) -> tuple[Outline | None, int]:
    """The statement that starts here, and the start of the next."""
    head = _HEAD.match(text, start)
    if head is not None and _is_name(head[1]):
        begin = head.end()
    else:
        head, begin = None, start
    parts: list[str] = []
    texts: list[str] = []
    end = position = start
    part, marks = "", _MARKS
    for match in _CUT.finditer(text, begin):
        kind = match.lastindex or 0
        position = match.end()
        if position - start > MAX_OUTLINE:
            return None, start
        if 1 < kind < _COMMENT:
            if kind < _STRING and len(match[kind]) > MAX_DIGITS:
                return None, start
            parts.append(part + match[1] + marks[kind])
            texts.append(match[kind])
            end, part = position, ""
            continue
        bare = len(match[1].rstrip())
        if bare:
            end = match.start() + bare
        part += match[1]
        if kind == _OPEN:
            return None, start
        if kind != _COMMENT:
            break
        part += " "
    if text.find("<", start, position) >= 0 and _MARKUP.search(text, start, position):
        return None, start  # the content of an element has other cuts
    part = part.rstrip()
    tail = _TAIL.search(part)
    outline = Outline("", texts, start, end)
    if tail is not None and _is_name(tail[1]):
        part = part[: tail.start()] + "\0p"
        outline.publish = _named(tail[1])
    parts.append(part)
    outline.key = "".join(parts)
    if head is not None:
        outline.name, outline.named = _named(head[1]), head.span(1)
        if head[2] is not None:
            outline.mode = head[2].upper()
            outline.key = f"\0c{outline.mode} {outline.key}"
    return outline, position


def _is_name(word: str) -> bool:
    return word.upper() not in KEYWORDS


def _named(word: str) -> str:
    return unquote(word) if word[0] == "`" else word
