"""The error for JOIN, LEFT JOIN and ON of SQL, which shows the valid form."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from braid.lang.parse.limits import MAX_QUOTED
from braid.lang.parse.problems import Problem

_KINDS = frozenset({"INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL"})
_OUTER = frozenset({"LEFT", "RIGHT", "FULL", "OUTER"})
#: The words that end an input or a condition. A bracket that was opened before it ends it too.
_ENDS = _KINDS | {"JOIN", "ON", "USING", "WHERE", "GROUP", "HAVING", "PUBLISH", "FROM", ",", ";"}
_NESTING = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
#: The most tokens of an input or a condition that the error shows.
_MOST = 40


def sql_join(tokens: Sequence[Token], index: int) -> Problem | None:
    """The error of a text that does not parse at a token; None if no SQL join is the cause."""
    first = last = index
    while last < len(tokens) and tokens[last].upper() in _KINDS:
        last += 1
    if last == index and index + 1 < len(tokens) and tokens[index].type == "NAME":
        # An alias without AS is one only before a comma or the end.
        following = tokens[index + 1].upper()
        if tokens[index].upper() not in _ENDS and following in _KINDS | {"JOIN", "ON"}:
            return sql_join(tokens, index + 1)
    if last >= len(tokens) or not any(token.type == "_FROM" for token in tokens[:index]):
        return None
    while tokens[first - 1].upper() in _KINDS:
        first -= 1
    left = _before(tokens, first)
    if tokens[last].upper() == "ON" and first == last:
        condition = _after(tokens, last + 1) or "A.x = B.x"
        hint = f"the condition of a join stands in WHERE: FROM ..., {left or 'B'} WHERE {condition}"
        return Problem("E129", "ON is not a part of FROM", _at(tokens, last, last), hint)
    if tokens[last].upper() != "JOIN":
        return None
    return _instead(tokens, first, last, left)


def _instead(tokens: Sequence[Token], first: int, last: int, left: str) -> Problem:
    kinds = {token.upper() for token in tokens[first:last]}
    right = _after(tokens, last + 1)
    after = last + 1
    while after < len(tokens) and tokens[after].upper() not in ("ON", "JOIN"):
        after += 1
    condition = _after(tokens, after + 1) if tokens[after : after + 1] != ["JOIN"] else ""
    form = f"FROM {left or 'A'}, {right or 'B'}"
    if "CROSS" not in kinds:
        form += f" WHERE {condition or 'A.x = B.x'}"
    hint = f"separate the inputs with a comma: {form}"
    if kinds & _OUTER:
        hint += " (there is no outer join: rows that join nothing give no result)"
    words = " ".join(token.upper() for token in tokens[first : last + 1])
    return Problem("E129", f"{words} is not a part of FROM", _at(tokens, first, last), hint)


def _at(tokens: Sequence[Token], first: int, last: int) -> tuple[int, int]:
    return (tokens[first].start_pos or 0, tokens[last].end_pos or 0)


def _before(tokens: Sequence[Token], end: int) -> str:
    """The text of the input that ends before a token."""
    start, depth = end, 0
    while start > 0 and end - start < _MOST:
        token = tokens[start - 1]
        depth -= _NESTING.get(token, 0)
        if depth < 0 or (depth == 0 and token.upper() in _ENDS):
            break
        start -= 1
    return _written(tokens[start:end])


def _after(tokens: Sequence[Token], start: int) -> str:
    """The text of the input or condition that begins at a token."""
    end, depth = start, 0
    while end < len(tokens) and end - start < _MOST:
        depth += _NESTING.get(tokens[end], 0)
        if depth < 0 or (depth == 0 and tokens[end].upper() in _ENDS):
            break
        end += 1
    return _written(tokens[start:end])


def _written(tokens: Sequence[Token]) -> str:
    """Tokens as a text; empty if it is too long to show."""
    text = ""
    for token in tokens:
        close = token in (".", ")", "]", "}", "{") or text.endswith((".", "(", "[", "{"))
        text += str(token) if close or not text else f" {token}"
    return text if len(text) <= MAX_QUOTED else ""
