"""The tokens of blocks in XPath and in JSONPath: words, constants, variables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isinf

from lark import Token

from braid.lang.parse.limits import quoted
from braid.lang.parse.problems import At, Problem
from braid.lang.parse.tokens import unquote
from braid.lang.parse.xml_syntax import Literal, Word

OPERATORS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "≠": "!=", "<": "<", ">": ">"}
OPERATORS |= {"<=": "<=", "≤": "<=", ">=": ">=", "≥": ">="}
#: What can follow a predicate in XPath or in the rest of the language, but not in blocks.
LEFT_OUT = {
    "OR": "OR",
    "IN": "IN",
    "BETWEEN": "BETWEEN",
    "LIKE": "LIKE",
    "IS": "IS",
    "+": "arithmetic (+)",
    "-": "arithmetic (-)",
    "*": "arithmetic (*)",
    "DIV": "arithmetic (div)",
    "MOD": "arithmetic (mod)",
}
#: Kinds of tokens that are not words.
_NAME_PART = re.compile(r"[\w.-]+")
_MARKS = frozenset({"NUMBER", "STRING", "DOLLAR", "QUOTED", "UNKNOWN", "COMPARE", "MARKUP"})


def is_word(token: Token) -> bool:
    """Whether a token is a word, including a keyword of the language."""
    return bool(token) and (token[0].isalpha() or token[0] == "_") and token.type not in _MARKS


class BlockTokens:
    """A position in the tokens of a statement."""

    def __init__(self, tokens: Sequence[Token], position: int) -> None:
        self._tokens = tokens
        self.position = position

    # --- tokens ---

    @property
    def _now(self) -> str:
        return str(self._tokens[self.position]) if self.position < len(self._tokens) else ""

    def _peek(self, ahead: int = 1) -> str:
        place = self.position + ahead
        return str(self._tokens[place]) if place < len(self._tokens) else ""

    def _at(self) -> At:
        if self.position < len(self._tokens):
            token = self._tokens[self.position]
            return (token.start_pos or 0, token.end_pos or 0)
        last = self._tokens[-1]
        return (last.end_pos or 0, (last.end_pos or 0) + 1)

    def _since(self, start: At) -> At:
        last = self._tokens[self.position - 1]
        return (start[0], last.end_pos or 0)

    def _take(self, wanted: str) -> bool:
        if self._now.upper() == wanted:
            self.position += 1
            return True
        return False

    def _expect(self, wanted: str, where: str) -> None:
        if not self._take(wanted):
            found = f"{self._now!r}" if self._now else "the end of the statement"
            raise Problem("E220", f"expected {wanted!r} {where}, found {found}", self._at())

    # --- constants and variables ---

    def _literal(self) -> Literal | None:
        start = self._at()
        if not self._now:
            return None
        token = self._tokens[self.position]
        negative = token == "-" and self._peek(1)[:1].isdigit()
        if token.type == "STRING":
            self.position += 1
            return Literal(unquote(token), False, start)
        if token.type == "NUMBER" or negative:
            self.position += 1 + negative
            text = ("-" if negative else "") + str(self._tokens[self.position - 1])
            number = float(text)
            if isinf(number):
                message = f"{quoted(text)} is too large for a number"
                raise Problem("E112", message, self._since(start))
            return Literal(number, False, self._since(start))
        if token == ":":
            self.position += 1
            return Literal(self._word("a parameter").name, True, self._since(start))
        return None

    def _variable(self) -> Word | None:
        arrow = self._take("->")
        if not arrow and self._now.upper() == "AS" and self._is_name(1):
            arrow = self._take("AS")
        return self._word("the name of a variable") if arrow else None

    def _is_name(self, ahead: int) -> bool:
        place = self.position + ahead
        return place < len(self._tokens) and is_word(self._tokens[place])

    # --- names ---

    def _adjacent(self, ahead: int) -> bool:
        """Whether a token follows the one before it without a space."""
        place = self.position + ahead
        if not 0 < place < len(self._tokens):
            return False
        return self._tokens[place].start_pos == self._tokens[place - 1].end_pos

    def _word(self, what: str, hint: str = "") -> Word:
        start = self._at()
        if self._now == ":" and self._is_name(1):
            self.position += 2
            return Word(str(self._tokens[self.position - 1]), True, self._since(start))
        if not self._now:
            raise Problem("E220", f"expected {what}, found the end of the statement", start)
        token = self._tokens[self.position]
        if token.type == "QUOTED":
            self.position += 1
            return Word(unquote(token), False, start)
        if not is_word(token):
            raise Problem("E220", f"expected {what}, found {str(token)!r}", start, hint)
        name = str(token)
        self.position += 1
        while self._now == "-" and self._adjacent(0) and self._adjacent(1) and self._is_name(1):
            name += f"-{self._peek()}"
            self.position += 2
        return Word(name, False, self._since(start))

    def _rest_of_name(self, word: Word) -> Word:
        """The rest of a name after its first token. Names of elements may contain dots and digits."""
        name, start = word.name, word.at
        while not word.parameter and self._adjacent(0) and _NAME_PART.fullmatch(self._now):
            ends = self._now[-1] in "-." and not (self._adjacent(1) and self._peek()[:1].isalnum())
            if ends or self._tokens[self.position - 1].type == "QUOTED":
                break
            name += self._now
            self.position += 1
        return Word(name, word.parameter, self._since(start))
