"""The grammar's alternatives for constraints, and the places where their words are keywords.

    CREATE CONSTRAINT order ON Quotes (day) ASCENDING WITHIN 100 ROWS
    DROP CONSTRAINT order
    CREATE QUERY q CONSTRAINTS EXACT AS ...

Each word is one only where no name could stand, so that columns called `key` or `within` are names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lark import Token, Transformer, v_args

from braid.lang.parse import syntax
from braid.lang.parse.durations import in_all, microseconds
from braid.lang.parse.problems import At, Problem

#: Terminals by word.
CONSTRAINT_WORDS = {
    "CONSTRAINT": "_CONSTRAINT", "CONSTRAINTS": "_CONSTRAINTS", "ON": "_ON", "KEY": "KEY",
    "REFERENCES": "_REFERENCES", "CLUSTERED": "CLUSTERED", "ASCENDING": "ASCENDING",
    "DESCENDING": "DESCENDING", "WITHIN": "_WITHIN",
}  # fmt: skip
_KINDS = frozenset({"KEY", "REFERENCES", "CLUSTERED", "ASCENDING", "DESCENDING", "WITHIN"})
_ARRIVALS = frozenset({"CLUSTERED", "ASCENDING", "DESCENDING"})
_TICKS = frozenset({"tick", "ticks"})


def constraint_word(tokens: Sequence[Token], index: int) -> str | None:
    """The terminal of a word about constraints that stands where it is one."""
    word = tokens[index].upper()
    if index == 1:
        about = word == "CONSTRAINT" and tokens[0].type in ("_CREATE", "_DROP")
        return "_CONSTRAINT" if about else None
    if index < 3 or tokens[0].type != "_CREATE":
        return None
    if tokens[1].type == "_QUERY":
        return "_CONSTRAINTS" if word == "CONSTRAINTS" and _says_mode(tokens, index) else None
    if tokens[1].upper() != "CONSTRAINT":
        return None
    before = tokens[index - 1]
    if index == 3 and word == "ON":
        return "_ON"
    if before.type == "RPAR" and word in _KINDS:
        return CONSTRAINT_WORDS[word]
    if word == "WITHIN" and before.upper() in _ARRIVALS and tokens[index - 2].type == "RPAR":
        return "_WITHIN"
    return "_ROWS" if word in ("ROW", "ROWS") and before.type == "NUMBER" else None


def _says_mode(tokens: Sequence[Token], index: int) -> bool:
    """Whether CONSTRAINTS stands after the name of a query, or after its FOR EACH (...)."""
    if index == 3:
        return True
    types = [token.type for token in tokens[:index]]
    return types[3] == "_FOR" and types[-1] == "RPAR" and "_AS" not in types


class _Attributes(NamedTuple):
    stream: syntax.Ident
    names: tuple[syntax.Ident, ...]


class _Kind(NamedTuple):
    word: str
    target: _Attributes | None
    within: syntax.Within | None


@v_args(inline=True)
class ConstraintBuilder(Transformer[Token, Any]):
    """A part of the parser's builder: one method for each alternative of the grammar."""

    def constraint_mode(self, name: syntax.Ident) -> syntax.Ident:
        return name

    def attributes(self, stream: syntax.Ident, *rest: Any) -> _Attributes:
        return _Attributes(stream, tuple(r for r in rest if isinstance(r, syntax.Ident)))

    def key_constraint(self, word: Token) -> _Kind:
        return _Kind("key", None, None)

    def references_constraint(self, target: _Attributes, within: syntax.Within | None) -> _Kind:
        return _Kind("references", target, within)

    def arrival_constraint(self, word: Token, within: syntax.Within | None) -> _Kind:
        return _Kind(word.lower(), None, within)

    def within_rows(self, amount: syntax.Number) -> syntax.Within:
        return syntax.Within(amount, "rows", amount.at)

    def within_time(self, *parts: Any) -> syntax.Within:
        amounts, units = parts[::2], parts[1::2]
        at: At = (amounts[0].at[0], units[-1].end_pos or 0)
        if len(parts) == 2 and units[0].lower() in _TICKS:
            return syntax.Within(amounts[0], "ticks", at)
        found: list[int] = []
        for amount, unit in zip(amounts, units, strict=True):
            if amount.text.startswith("-"):
                raise Problem("E198", "a constraint cannot be missed by less than nothing", at)
            place = (unit.start_pos or 0, unit.end_pos or 0)
            found.append(microseconds(amount.text, str(unit), place))
        return syntax.Within(syntax.Period(in_all(found, at), at), "time", at)

    def create_constraint(
        self, name: syntax.Ident, on: _Attributes, kind: _Kind
    ) -> syntax.CreateConstraint:
        target, theirs = (None, ()) if kind.target is None else kind.target
        return syntax.CreateConstraint(
            name, kind.word, on.stream, on.names, target, theirs, kind.within, name.at
        )

    def drop_constraint(self, name: syntax.Ident) -> syntax.DropConstraint:
        return syntax.DropConstraint(name, name.at)
