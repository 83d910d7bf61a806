"""The streams that a text declares itself, which a caller need not declare for it."""

from __future__ import annotations

from braid.lang.parse import syntax
from braid.lang.parse.parser import parse
from braid.lang.parse.problems import Problem, Problems
from braid.lang.parse.tokens import pieces


def declared_streams(text: str) -> set[str]:
    """The names of all CREATE STREAM statements. `load` reports errors of the others."""
    found: set[str] = set()
    if "create" not in text.lower():
        return found
    for piece in pieces(text):
        if [token.type for token in piece.tokens[:2]] != ["_CREATE", "_STREAM"]:
            continue
        try:
            statement = parse(piece)
        except (Problem, Problems):
            continue
        if isinstance(statement, syntax.CreateStream):
            found.add(statement.name.name)
    return found
