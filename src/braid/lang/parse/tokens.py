"""Text -> tokens, and the ends of statements.

One regular expression finds all tokens. The lexer and not the grammar cuts a file into statements,
so that an error in one statement cannot hide those of the next.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lark import Token

from braid.errors import Span, line_starts
from braid.lang.parse.element_parser import MarkupReader, begins_markup
from braid.lang.parse.limits import MAX_CHARACTERS, MAX_DEPTH, MAX_DIGITS, MAX_PROBLEMS, MAX_TOKENS
from braid.lang.parse.problems import Problem

#: Reserved words. A terminal with an underscore is dropped from the tree.
KEYWORDS = {
    "SELECT": "_SELECT", "FROM": "_FROM", "PUBLISH": "_PUBLISH", "AS": "_AS",
    "NEXT": "NEXT", "FOLD": "FOLD", "UNION": "UNION", "FILTER": "FILTER", "SAMETIME": "SAMETIME",
    "AND": "_AND", "OR": "_OR", "NOT": "NOT", "IS": "IS", "NULL": "NULL", "BETWEEN": "BETWEEN",
    "IN": "IN", "LIKE": "LIKE", "TRUE": "TRUE", "FALSE": "FALSE", "DUR": "DUR", "CAST": "CAST",
    "CASE": "CASE", "WHEN": "_WHEN", "THEN": "_THEN", "ELSE": "_ELSE", "DISTINCT": "DISTINCT",
    "CREATE": "_CREATE", "DROP": "_DROP", "STREAM": "_STREAM", "QUERY": "_QUERY",
    "TIME": "_TIME", "SEQUENCE": "_SEQUENCE", "LATENESS": "_LATENESS", "SHARABLE": "_SHARABLE",
    "WITH": "_WITH", "FOR": "_FOR", "EACH": "_EACH", "END": "_END", "DIV": "DIV",
}  # fmt: skip

#: Keywords that are names wherever a name can be.
SOFT = frozenset(
    {"CREATE", "DROP", "STREAM", "QUERY", "TIME", "SEQUENCE", "LATENESS", "SHARABLE", "WITH"}
    | {"FOR", "EACH", "END", "DIV"}
)

SYMBOLS = {
    "(": "_LPAR", ")": "RPAR", "{": "_LBRACE", "}": "_RBRACE", "[": "_LBRACKET", "]": "RBRACKET",
    ",": "_COMMA", ".": "_DOT", ":": "COLON", ";": "END_OF_STATEMENT",
    "<": "LT", ">": "GT", "+": "PLUS", "-": "MINUS", "*": "STAR", "/": "SLASH", "%": "PERCENT",
    "||": "CONCAT",
    **dict.fromkeys(("=", "==", "<=", ">=", "<>", "!=", "<=>", "≤", "≥", "≠"), "COMPARE"),
}  # fmt: skip

#: Words after which a quote begins a string. After any other word, it is a prime: `x5'`.
_BEFORE_STRING = "|".join(KEYWORDS)

_TOKEN = re.compile(
    rf"""
      (?P<skip>(?:\s++|--[^\n]*+)++)
    | (?P<NAME>(?!(?i:{_BEFORE_STRING})\b)[^\W\d]\w*'*|[^\W\d]\w*)
    | (?P<NUMBER>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<symbol><=>|\[\?|<=|>=|<>|!=|==|\|\||->|//|[≤≥≠]|[-+*/%=<>(){{}}\[\],;.:@])
    | (?P<DOLLAR>\$\d*)
    | (?P<STRING>'(?:[^'\n]++|'')*'|"(?:[^"\n]++|"")*")
    | (?P<QUOTED>`(?:[^`\n]++|``)+`)
    | (?P<open>['"`][^\n]*)
    | (?P<bad>.)
    """,
    re.VERBOSE,
)


#: Tokens after which an item of SELECT begins, and so perhaps an element constructor.
_BEFORE_MARKUP = frozenset({"_SELECT", "DISTINCT", "_COMMA"})
#: The end of a statement that has a malformed element constructor.
_LAST_LINE = re.compile(r";[ \t]*(?:\n|\Z)")


class MarkupToken(Token):
    """A piece of an element constructor; `text` is its content in the document."""

    text: str
    in_attribute: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """The tokens of one statement, its place in the text, and the errors of the lexer in it."""

    tokens: list[Token]
    start: int
    end: int
    problems: tuple[Problem, ...] = ()


def pieces(text: str) -> list[Piece]:
    """The statements of a text, without empty ones."""
    found: list[Piece] = []
    position = 0
    while position < len(text):
        piece, position = piece_at(text, position)
        if piece is not None:
            found.append(piece)
    return found


def piece_at(text: str, start: int) -> tuple[Piece | None, int]:
    """The statement that begins here (None if it has no token), and its end."""
    tokens: list[Token] = []
    problems: list[Problem] = []
    size = _Size(problems)
    end = len(text)
    for token in _scan(text, start, problems):
        if token.type == "END_OF_STATEMENT":
            end = token.end_pos or 0
            break
        if size.takes(token):
            tokens.append(token)
    if not tokens and not problems:
        return None, end
    starts = [t.start_pos or 0 for t in tokens[:1]] + [p.at[0] for p in problems]
    ends = [t.end_pos or 0 for t in tokens[-1:]] + [p.at[1] for p in problems]
    return Piece(tokens, min(starts), max(ends), tuple(problems)), end


class _Size:
    """The size of a statement. Of a statement that is too large, only the end is found."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._first: Token | None = None
        self._count = self._open = 0
        self._over = False

    def takes(self, token: Token) -> bool:
        if self._over:
            return False
        self._first = self._first or token
        self._count += 1
        self._open += _NESTING.get(token, 0)
        at = (token.start_pos or 0, token.end_pos or 0)
        if self._open > MAX_DEPTH:
            self._stop("E122", f"more than {MAX_DEPTH} brackets are open here", at, TOO_DEEP)
        elif self._count > MAX_TOKENS:
            message = f"this statement has more than {MAX_TOKENS:,} words and symbols"
            self._stop("E125", message, at, _TOO_LONG)
        elif at[1] - (self._first.start_pos or 0) > MAX_CHARACTERS:
            message = f"this statement has more than {MAX_CHARACTERS:,} characters"
            self._stop("E125", message, at, _TOO_LONG)
        elif token.type == "NUMBER" and len(token) > MAX_DIGITS:
            message = f"a number of {len(token):,} digits: {MAX_DIGITS} are the most"
            self._note("E126", message, at, "a DOUBLE is written with an exponent: 1e300")
        return not self._over

    def _stop(self, code: str, message: str, at: tuple[int, int], hint: str) -> None:
        self._over = True
        self._note(code, message, at, hint)

    def _note(self, code: str, message: str, at: tuple[int, int], hint: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(code, message, at, hint))


_NESTING = {"(": 1, "{": 1, "[": 1, "[?": 1, ")": -1, "}": -1, "]": -1}
TOO_DEEP = "publish a part of it as a stream of its own and read that"
_TOO_LONG = (
    "publish parts of it as streams of their own; "
    "constants that many queries differ in are rows of a prepared query (FOR EACH)"
)


def _scan(text: str, begin: int, problems: list[Problem]) -> Iterator[Token]:
    """All tokens from a place on, with element constructors."""
    while begin < len(text):
        before = ""
        for token in _plain_tokens(text, begin, problems):
            if (
                token == "<"
                and before in _BEFORE_MARKUP
                and begins_markup(text, token.start_pos or 0)
            ):
                made, begin = _markup(text, token.start_pos or 0, problems)
                yield from made
                break
            before = token.type
            yield token
        else:
            return


def _markup(text: str, start: int, problems: list[Problem]) -> tuple[list[Token], int]:
    """The tokens of an element constructor, and its end.

    After an error, the rest is skipped up to the certain end of the statement.
    """
    reader = MarkupReader(text, start)
    made: list[Token] = []

    def skip(begin: int) -> int:
        """The end of the expression that begins here. Its tokens are added."""
        made.append(Token("_LBRACE", "{", begin - 1, None, None, None, None, begin))
        for token in _plain_tokens(text, begin, problems):
            at = (token.start_pos or 0, token.end_pos or 0)
            if token.type == "END_OF_STATEMENT" or token == "{":
                raise Problem("E101", "this '{' is never closed", (begin - 1, begin))
            made.append(token)
            if token == "}":
                return at[0]
        raise Problem("E101", "this '{' is never closed", (begin - 1, begin))

    try:
        for piece in reader.pieces(skip):
            value = text[slice(*piece.at)]
            token = MarkupToken("MARKUP", value, piece.at[0], None, None, None, None, piece.at[1])
            token.text, token.in_attribute = piece.text, piece.in_attribute
            made.append(token)
    except Problem as problem:
        problems.append(problem)
        end = _LAST_LINE.search(text, start)
        return [], len(text) if end is None else end.start()
    return made, reader.position


def _plain_tokens(text: str, begin: int, problems: list[Problem]) -> Iterator[Token]:
    keywords, symbols = KEYWORDS, SYMBOLS
    for match in _TOKEN.finditer(text, begin):
        kind = match.lastgroup
        if kind == "skip":
            continue
        value = match.group()
        start, end = match.span()
        if kind == "NAME":
            kind = keywords.get(value.upper(), "NAME")
        elif kind == "symbol":
            kind = symbols.get(value, "UNKNOWN")
        elif kind in ("open", "bad"):
            _note_lexical(problems, kind, value, start, end)
            if kind == "bad" or not value.rstrip().endswith(";"):
                continue
            # The line of an unclosed string ends its statement where the line says so.
            kind = "END_OF_STATEMENT"
        yield Token(kind or "", value, start, None, None, None, None, end)


def _note_lexical(problems: list[Problem], kind: str, value: str, start: int, end: int) -> None:
    """Note one problem for a run of characters, up to the limit of errors."""
    last = problems[-1] if problems else None
    if kind == "bad" and last is not None and last.code == "E104" and last.at[1] == start:
        last.at = (last.at[0], end)
        last.message = "these characters have no meaning here"
    elif len(problems) < MAX_PROBLEMS:
        problems.append(_lexical(kind, value, start, end))


def _lexical(kind: str, value: str, start: int, end: int) -> Problem:
    if kind == "bad":
        hint = "write one query for each path" if value == "|" else ""
        return Problem("E104", f"the character {value!r} has no meaning here", (start, end), hint)
    what = "quoted name" if value[0] == "`" else "string"
    hint = f"a {what} ends on its line with {value[0]}; write {value[0] * 2} for one inside it"
    return Problem("E102", f"this {what} is not closed", (start, start + 1), hint)


def unquote(value: str) -> str:
    """The content of a string or quoted name: a doubled quote stands for one."""
    quote = value[0]
    inner = value[1:-1]
    return inner.replace(quote * 2, quote) if quote in inner else inner


def span_of(text: str, at: tuple[int, int]) -> Span:
    """Offsets as line and column. A span of several lines ends with the first line."""
    start, end = at
    starts = line_starts(text)
    line = bisect_right(starts, start)
    stop = text.find("\n", start)
    stop = len(text) if stop < 0 else stop
    return Span(line, start - starts[line - 1] + 1, max(1, min(end, stop) - start))


def _is_view(token: Token, tokens: Sequence[Token]) -> bool:
    return token is tokens[1] and token.upper() == "VIEW" and tokens[0].type == "_CREATE"


def published_by(tokens: Sequence[Token]) -> Iterator[str]:
    """The streams that a statement would publish, from its tokens: it may not parse."""
    for before, token in pairwise(tokens):
        makes = before.type in ("_PUBLISH", "_STREAM") or _is_view(before, tokens)
        makes = makes or (before.type == "NAME" and before.upper() == "DETECT")
        if makes and token.type in ("NAME", "QUOTED"):
            yield unquote(token) if token.type == "QUOTED" else str(token)
