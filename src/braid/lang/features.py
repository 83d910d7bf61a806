"""The parts of the language that are designed but not there yet, recognised in a text.

Looked for only in a statement that does not parse, so that none of their words is reserved.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from braid.lang.problems import Problem

_DETECT = ("E141", "DETECT is not available yet")


def unavailable(tokens: Sequence[Token]) -> Problem | None:
    """What of the later language stands in a statement that does not parse."""
    words = [token.upper() for token in tokens]
    for place, word in enumerate(words):
        found = _marker(word, place)
        if found is not None:
            return _problem(found, tokens[place])
    return None


def _marker(word: str, place: int) -> tuple[str, str] | None:
    if word == "DETECT" and place == 0:
        return _DETECT
    return None


def _problem(feature: tuple[str, str], token: Token) -> Problem:
    code, message = feature
    return Problem(code, message, (token.start_pos or 0, token.end_pos or 0))
