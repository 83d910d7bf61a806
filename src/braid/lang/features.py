"""The parts of the language that are designed but not there yet, recognised in a text.

Looked for only in a statement that does not parse, so that none of their words is reserved.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from braid.lang.problems import Problem

_WINDOWS = ("E140", "windows and relations are not available yet")
_DETECT = ("E141", "DETECT is not available yet")
_XML = ("E143", "XML queries are not available yet")
_VIEWS = ("E144", "views are not available yet")

_RELATIONAL = frozenset({"WHERE", "GROUP", "HAVING"})
_TO_STREAM = frozenset({"ISTREAM", "DSTREAM", "RSTREAM"})
_WINDOW = frozenset({"RANGE", "ROWS", "PARTITION", "NOW"})


def unavailable(tokens: Sequence[Token], index: int) -> Problem | None:
    """What of the later language stands in a statement whose parse stopped at `index`."""
    words = [token.upper() for token in tokens]
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        found = _marker(word, after, place, words)
        if found is not None:
            return _problem(found, tokens[place])
    if index < len(words) and words[index] == "[":
        return _problem(_WINDOWS, tokens[index])
    if index < len(words) and words[index] == "," and _in_from(words[:index]):
        return _problem(_WINDOWS, tokens[index])
    return None


def _marker(word: str, after: str, place: int, words: Sequence[str]) -> tuple[str, str] | None:
    before = words[place - 1] if place else ""
    if word == "DETECT" and place == 0:
        return _DETECT
    if word == "VIEW" and before == "CREATE":
        return _VIEWS
    if word in {"//", "->", "@"} or (word == "FOLLOWED" and after == "BY"):
        return _XML
    if word == "JOIN" and after == "{":
        return _XML
    if word == "[" and after in _WINDOW:
        return _WINDOWS
    if word in _RELATIONAL and before not in {"", "FROM", "SELECT", ",", "."} and after != "":
        return _WINDOWS
    if word in _TO_STREAM and after == "(":
        return _WINDOWS
    return None


def _in_from(words: Sequence[str]) -> bool:
    """Whether a comma here would list a second stream: after FROM, outside of braces."""
    depth = 0
    for word in reversed(words):
        depth += {"}": 1, ")": 1, "{": -1, "(": -1}.get(word, 0)
        if depth < 0:
            return False
        if depth == 0 and word == "FROM":
            return True
    return False


def _problem(feature: tuple[str, str], token: Token) -> Problem:
    code, message = feature
    return Problem(code, message, (token.start_pos or 0, token.end_pos or 0))
