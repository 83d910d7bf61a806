"""Soft keywords: words of windows, relations, views and DETECT that are keywords only in place.

WHERE, GROUP, ROWS and the like may be names of streams and attributes, in patterns as well. Between
lexer and parser, a word becomes a keyword only where no name can be: WHERE after the inputs of
FROM, ROWS in the brackets of a window. The alias of an input without AS is found in the same way. A
text without relations has none of these places.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from lark import Token

from braid.lang.parse.constraint_syntax import CONSTRAINT_WORDS, constraint_word
from braid.lang.parse.tokens import KEYWORDS, SOFT

#: Terminals by word, for messages; words of several terminals are left out.
RELATIONAL = {
    "WHERE": "_WHERE", "GROUP": "_GROUP", "BY": "_BY", "HAVING": "_HAVING", "RANGE": "_RANGE",
    "ROWS": "_ROWS", "PARTITION": "_PARTITION", "NOW": "_NOW", "UNBOUNDED": "_UNBOUNDED",
    "VIEW": "_VIEW", **CONSTRAINT_WORDS,
}  # fmt: skip
#: The words of DETECT, which follow its inputs and its WHERE.
SETTINGS = {
    "PACKING": "PACKING", "BATCH": "BATCH", "BUCKETS": "BUCKETS", "MEMORY": "MEMORY",
    "VERIFY": "VERIFY", "COUNTS": "COUNTS", "BITMAPS": "BITMAPS",
}  # fmt: skip
DETECTION = {"DETECT": "DETECT", "WITHIN": "_WITHIN", "ALWAYS": "ALWAYS", "NEVER": "NEVER"}
TO_STREAM = frozenset({"ISTREAM", "DSTREAM", "RSTREAM"})

_NAMES = frozenset({"NAME", "QUOTED", "ALIAS"} | {KEYWORDS[word] for word in SOFT})
#: The possible last tokens of an input of FROM, and of an expression.
_ENDS_INPUT = _NAMES | {"RPAR", "RBRACKET"}
_ENDS_EXPRESSION = _ENDS_INPUT | {"NUMBER", "STRING", "NULL", "TRUE", "FALSE", "DUR"}
_CLOSING = frozenset({"RPAR", "_RBRACE", "RBRACKET"})
_OPENING = frozenset({"_LPAR", "_LBRACE", "_LBRACKET"})


class _Place(Enum):
    """The state of the search since the last open bracket."""

    ELSEWHERE = 0
    FROM = 1
    CLAUSE = 2
    WINDOW = 3
    SETTINGS = 4


def with_relational_words(tokens: Sequence[Token]) -> list[Token]:
    """The same tokens, with the type of a keyword where a word is one."""
    return _Words(tokens).run()


class _Words:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._done: list[Token] = []
        self._places = [_Place.ELSEWHERE]
        #: The number of open brackets at each DETECT that is not complete.
        self._detects: set[int] = set()
        #: Whether a SELECT or FROM came before.
        self._in_query = False

    def run(self) -> list[Token]:
        for index, token in enumerate(self._tokens):
            kind = self._keyword(index, token) if token.type in ("NAME", "QUOTED") else None
            self._done.append(token if kind is None else Token.new_borrow_pos(kind, token, token))
            self._move(index)
        return self._done

    # --- what is around a token ---

    def _type(self, index: int) -> str:
        """The type of a token as known so far; empty beyond the ends."""
        known = self._done if index < len(self._done) else self._tokens
        return str(known[index].type) if 0 <= index < len(known) else ""

    def _word(self, index: int) -> str:
        return self._tokens[index].upper() if self._type(index) == "NAME" else ""

    def _move(self, index: int) -> None:
        kind = self._done[index].type
        self._in_query = self._in_query or kind in ("_SELECT", "_FROM")
        if kind in _OPENING:
            self._places.append(self._inside(kind, index))
        elif kind in _CLOSING:
            if len(self._places) > 1:
                self._detects.discard(len(self._places))
                self._places.pop()
        elif kind == "_FROM":
            self._places[-1] = _Place.FROM
        elif kind == "DETECT":
            self._detects.add(len(self._places))
        elif kind in SETTINGS or (kind == "_PARTITION" and self._places[-1] is not _Place.WINDOW):
            self._places[-1] = _Place.SETTINGS
        elif kind in ("_WHERE", "_GROUP", "_HAVING"):
            self._places[-1] = _Place.CLAUSE
        elif kind in ("_PUBLISH", "_SELECT"):
            self._places[-1] = _Place.ELSEWHERE

    def _inside(self, bracket: str, index: int) -> _Place:
        if self._places[-1] is _Place.FROM and bracket == "_LPAR":
            return _Place.FROM  # an input in parentheses, unless a SELECT follows
        is_window = bracket == "_LBRACKET" and self._type(index - 1) in _ENDS_INPUT
        if self._places[-1] is _Place.FROM and is_window:
            return _Place.WINDOW
        return _Place.ELSEWHERE

    # --- what a name is ---

    def _keyword(self, index: int, token: Token) -> str | None:
        word = token.upper() if token.type == "NAME" else ""
        if word in TO_STREAM and self._makes_stream(index):
            return "TO_STREAM"
        if word == "DETECT" and self._detects_here(index):
            return "DETECT"
        setting = self._setting(index, word)
        if setting is not None:
            return setting
        match self._places[-1]:
            case _Place.WINDOW:
                return self._in_window(index, word)
            case _Place.FROM if self._type(index - 1) in _ENDS_INPUT:
                return self._clause(index, word) or self._alias(index)
            case _Place.CLAUSE if self._type(index - 1) in _ENDS_EXPRESSION | {"_GROUP"}:
                return self._clause(index, word) if word != "WHERE" else None
        if word == "VIEW" and index == 1 and self._type(0) in ("_CREATE", "_DROP"):
            return "_VIEW"
        return constraint_word(self._tokens, index) if token.type == "NAME" else None

    def _makes_stream(self, index: int) -> bool:
        """Whether this is Istream(Select ...) or Select Istream(...), and not a function's name."""
        if self._type(index + 1) != "_LPAR":
            return False
        inner = self._word(index + 2)
        if self._type(index + 2) in ("_SELECT", "_FROM") or inner in (*TO_STREAM, "DETECT"):
            return True
        before = self._type(index - 1)
        return before == "_SELECT" or (before == "DISTINCT" and self._type(index - 2) == "_SELECT")

    def _detects_here(self, index: int) -> bool:
        """Whether DETECT begins a query: FROM follows, directly or after a name."""
        named = self._type(index + 1) in _NAMES and self._type(index + 2) == "_FROM"
        if not named and self._type(index + 1) != "_FROM":
            return False
        after_create = self._type(index - 1) == "_AS" and not self._in_query
        return index == 0 or after_create or self._type(index - 1) == "_LPAR"

    def _setting(self, index: int, word: str) -> str | None:
        """Whether a setting of DETECT begins: after its inputs, its WHERE, or another setting."""
        if len(self._places) not in self._detects:
            return None
        before, place = self._type(index - 1), self._places[-1]
        if word in ("ALWAYS", "NEVER") and before == "VERIFY":
            return word
        if word == "BY" and before == "_PARTITION":
            return "_BY"
        partitions = word == "PARTITION" and self._word(index + 1) == "BY"
        known = "_PARTITION" if partitions else SETTINGS.get(word)
        if place is _Place.SETTINGS:
            if before in ("_BY", "_COMMA", "_DOT"):
                return None  # an attribute of PARTITION BY
            return known or ("_WITHIN" if word == "WITHIN" else None)
        follows = self._type(index + 1) in ("NUMBER", "COLON", "MINUS", "", "NAME", "RPAR")
        ends = {_Place.FROM: _ENDS_INPUT, _Place.CLAUSE: _ENDS_EXPRESSION}.get(place, frozenset())
        return known if before in ends and follows else None

    def _in_window(self, index: int, word: str) -> str | None:
        before = self._type(index - 1)
        first = before == "_LBRACKET" and word in ("RANGE", "ROWS", "PARTITION", "NOW")
        follows = (before, word) in (("_PARTITION", "BY"), ("_RANGE", "UNBOUNDED"))
        if first or follows or (word == "ROWS" and before in _NAMES):
            return RELATIONAL[word]
        return None

    def _clause(self, index: int, word: str) -> str | None:
        if self._starts_clause(index):
            return RELATIONAL[word]
        return "_BY" if word == "BY" and self._type(index - 1) == "_GROUP" else None

    def _starts_clause(self, index: int) -> bool:
        word = self._word(index)
        return word in ("WHERE", "HAVING") or (word == "GROUP" and self._word(index + 1) == "BY")

    def _alias(self, index: int) -> str | None:
        ends = self._type(index + 1) in ("", "_COMMA", "RPAR", "_PUBLISH")
        return "ALIAS" if ends or self._starts_clause(index + 1) else None
