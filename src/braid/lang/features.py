"""The parts of the language that are designed but not there yet, recognised in a text.

Looked for only in a statement that does not parse, so that none of their words is reserved.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from braid.lang.problems import Problem

_XML = ("E143", "XML queries are not available yet")


def unavailable(tokens: Sequence[Token]) -> Problem | None:
    """What of the later language stands in a statement that does not parse."""
    words = [token.upper() for token in tokens]
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        found = _marker(word, after)
        if found is not None:
            return _problem(found, tokens[place])
    return None


def _marker(word: str, after: str) -> tuple[str, str] | None:
    if word in {"//", "->", "@"} or (word == "FOLLOWED" and after == "BY"):
        return _XML
    if word == "JOIN" and after == "{":
        return _XML
    return None


def _problem(feature: tuple[str, str], token: Token) -> Problem:
    code, message = feature
    return Problem(code, message, (token.start_pos or 0, token.end_pos or 0))
