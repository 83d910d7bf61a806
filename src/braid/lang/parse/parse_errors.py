"""The messages for texts that do not parse: what was found and what was expected."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token, UnexpectedToken

from braid.lang.parse.limits import quoted
from braid.lang.parse.problems import At, Problem, similar
from braid.lang.parse.soft_keywords import DETECTION, RELATIONAL, SETTINGS
from braid.lang.parse.sql_joins import sql_join
from braid.lang.parse.tokens import KEYWORDS, SYMBOLS

_CLOSING = {"(": ")", "{": "}", "[": "]"}

#: The terminals that start an expression and those that continue one, each with one phrase.
_STARTS = frozenset({"NUMBER", "STRING", "DOLLAR", "DUR", "CASE", "CAST", "TRUE", "NULL", "COLON"})
_CONTINUES = {
    "an operator": {
        "PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "DIV", "CONCAT", "LT", "GT", "COMPARE", "IS",
        "BETWEEN", "IN", "LIKE", "NOT", "_AND", "_OR", "_LBRACKET", "_DOT",
    },
}  # fmt: skip
_WORDS = {
    "NAME": "a name",
    "QUOTED": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "MARKUP": "an element",
    "COMPARE": "a comparison",
    "DOLLAR": "$1, $2 or $",
    "ALIAS": "a name",
    "TO_STREAM": "Istream",
    "$END": "the end of the statement",
    **{terminal: f"'{symbol}'" for symbol, terminal in SYMBOLS.items() if terminal != "COMPARE"},
    **{t: word for word, t in (KEYWORDS | RELATIONAL | SETTINGS | DETECTION).items()},
}
_SOFT_TERMINALS = frozenset(
    {"_CREATE", "_DROP", "_STREAM", "_QUERY", "_TIME", "_SEQUENCE", "_LATENESS", "_SHARABLE"}
    | {"_WITH", "_FOR", "_EACH", "_END", "DIV"}
)


def explain(error: UnexpectedToken, tokens: Sequence[Token]) -> Problem:
    """The message for a text that does not parse."""
    token = error.token
    at_end = token.type == "$END"
    index = len(tokens) if at_end else _index(tokens, token)
    return (
        _bracket(tokens, index)
        or _nested_decorator(tokens, index)
        or sql_join(tokens, index)
        or _unexpected(error, tokens, at_end)
    )


def _index(tokens: Sequence[Token], token: Token) -> int:
    return next(i for i, t in enumerate(tokens) if t is token)


def _at(token: Token) -> At:
    return (token.start_pos or 0, token.end_pos or 0)


def _bracket(tokens: Sequence[Token], index: int) -> Problem | None:
    """The error of a bracket that is unclosed, or closed by another kind, before parsing stopped."""
    open_: list[Token] = []
    for token in tokens[: index + 1]:
        if token in _CLOSING:
            open_.append(token)
        elif token in _CLOSING.values():
            if not open_:
                return Problem("E101", f"this '{token}' closes nothing", _at(token))
            if _CLOSING[open_[-1]] != token:
                return _unclosed(open_[-1], f"'{token}' came first")
            open_.pop()
    if open_ and index >= len(tokens):
        return _unclosed(open_[-1], "the statement ended first")
    return None


def _unclosed(token: Token, why: str) -> Problem:
    return Problem("E101", f"this '{token}' is never closed", _at(token), why)


def _nested_decorator(tokens: Sequence[Token], index: int) -> Problem | None:
    if index < 2 or index >= len(tokens) or tokens[index].type != "DOLLAR":
        return None
    if tokens[index - 1].type != "_DOT" or tokens[index - 2].type != "DOLLAR":
        return None
    hint = "inputs of inputs are named by suffix: $1.Price_1 for the first input's first Price"
    return Problem("E115", "decorators do not nest", _at(tokens[index]), hint)


def _unexpected(error: UnexpectedToken, tokens: Sequence[Token], at_end: bool) -> Problem:
    accepted = set(error.accepts or error.expected)
    if not at_end and _after_number(tokens, error.token):
        accepted.discard("NAME")
    expected = _expected(accepted)
    if at_end:
        end = tokens[-1].end_pos or 0 if tokens else 0
        message = f"the statement ends too early: expected {expected}"
        return Problem("E100", message, (end, end + 1))
    hint = None
    if error.token.type == "NAME":
        words = [KEYWORDS_BY_TERMINAL[t] for t in error.accepts if t in KEYWORDS_BY_TERMINAL]
        guess = similar(error.token.upper(), words)
        hint = f"did you mean {guess}?" if guess else None
    elif error.token.upper() in KEYWORDS and _only_a_name(error.accepts):
        hint = f"{error.token.upper()} is a word of the language: write `{error.token}` as a name"
    found = f"'{quoted(error.token)}'"
    return Problem("E100", f"unexpected {found}: expected {expected}", _at(error.token), hint)


def _only_a_name(accepted: set[str]) -> bool:
    return "NAME" in accepted and "NUMBER" not in accepted


def _after_number(tokens: Sequence[Token], token: Token) -> bool:
    """Whether a token follows a number, where a name could only be a unit of time."""
    index = _index(tokens, token)
    return index > 0 and tokens[index - 1].type == "NUMBER"


KEYWORDS_BY_TERMINAL = {
    terminal: word for word, terminal in (KEYWORDS | RELATIONAL | SETTINGS).items()
}


def _expected(terminals: set[str]) -> str:
    """Terminals as phrases: "an expression" instead of the thirty terminals that can start one."""
    left = set(terminals)
    words: list[str] = []
    if left >= _STARTS:
        words.append("an expression")
        left -= _STARTS | {"NAME", "QUOTED", "PLUS", "MINUS", "NOT", "FALSE", "_LPAR", "MARKUP"}
        left -= _SOFT_TERMINALS
    elif "NAME" in left:
        left -= _SOFT_TERMINALS
    for word, members in _CONTINUES.items():
        if len(left & members) > 3:
            words.append(word)
            left -= members
    words += sorted({_WORDS.get(t, t) for t in left}, key=lambda w: (w[0] == "'", w))
    if not words:
        return "something else"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
