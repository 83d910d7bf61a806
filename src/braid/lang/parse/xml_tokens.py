"""XML blocks in the tokens of a statement: each expression of them becomes one token.

A block can replace a stream. Without FROM, a statement may also be only a block, a join of blocks
or the name of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lark import Token

from braid.lang.parse.block_tokens import is_word
from braid.lang.parse.problems import Problem
from braid.lang.parse.xml_parser import XmlParser, joins_at, starts_block
from braid.lang.parse.xml_syntax import Documents

_BEFORE_STREAM = frozenset({"_FROM", "NEXT", "UNION", "_RBRACE"})


class DocumentsToken(Token):
    """A token for a whole expression of blocks."""

    documents: Documents


def with_documents(tokens: Sequence[Token]) -> list[Token]:
    """The same tokens, with one for each expression of blocks, and with FROM where it was left out."""
    done: list[Token] = []
    place = 0
    body = _body(tokens)
    closing: dict[int, int] | None = None
    may_start = False  # whether a stream can be here
    while place < len(tokens):
        if place == body and _is_bare(tokens, place):
            done.append(Token("_FROM", "FROM", tokens[place].start_pos))
            may_start = True
        if may_start and tokens[place] == "(" and closing is None:
            closing = _closing(tokens)
        if may_start and starts_block(tokens, _first_block(tokens, place, closing or {})):
            parser = XmlParser(tokens, place)
            documents = parser.documents()
            _check_end(tokens, parser.position)
            done.append(_token(documents, tokens[place], tokens[parser.position - 1]))
            place = parser.position
            may_start = False
            continue
        done.append(tokens[place])
        # A stream in parentheses may contain another one.
        may_start = tokens[place].type in (
            _BEFORE_STREAM | {"_LPAR"} if may_start else _BEFORE_STREAM
        )
        place += 1
    return done


def _check_end(tokens: Sequence[Token], place: int) -> None:
    """Refuse a relational clause after blocks: blocks are a stream, not a table of FROM."""
    if place < len(tokens) and tokens[place].upper() in ("WHERE", "GROUP", "HAVING"):
        token = tokens[place]
        message = f"{token.upper()} cannot stand behind blocks"
        hint = "write FILTER{..}(S//a->x), or publish the blocks and read what they publish"
        raise Problem("E220", message, (token.start_pos or 0, token.end_pos or 0), hint)


def _token(documents: Documents, first: Token, last: Token) -> Token:
    token = DocumentsToken(
        "DOCUMENTS", str(first), first.start_pos, None, None, None, None, last.end_pos
    )
    token.documents = documents
    return token


def _body(tokens: Sequence[Token]) -> int:
    """The start of the query of a statement."""
    if len(tokens) > 3 and [t.type for t in tokens[:2]] == ["_CREATE", "_QUERY"]:
        depth = 0
        for place, token in enumerate(tokens):
            depth += {"(": 1, ")": -1}.get(str(token), 0)
            if depth == 0 and token.type == "_AS":
                return place + 1
    return 0


def _is_bare(tokens: Sequence[Token], place: int) -> bool:
    """Whether a block or a stream without SELECT and FROM is here."""
    if place >= len(tokens):
        return False
    if starts_block(tokens, _inner(tokens, place)):
        return True
    named = tokens[place].type in ("NAME", "QUOTED") and is_word(tokens[place])
    rest = tokens[place + 1 :]
    return named and (not rest or (len(rest) == 2 and rest[0].type == "_PUBLISH"))


def _closing(tokens: Sequence[Token]) -> dict[int, int]:
    """The closing parenthesis for each opening one."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token == "(":
            opened.append(place)
        elif token == ")" and opened:
            found[opened.pop()] = place
    return found


def _first_block(tokens: Sequence[Token], place: int, closing: Mapping[int, int]) -> int:
    """The possible first block of an expression; in parentheses only if a join follows them."""
    if tokens[place] != "(":
        return place
    end = closing.get(place, len(tokens))
    return _inner(tokens, place) if joins_at(tokens, end + 1) else len(tokens)


def _inner(tokens: Sequence[Token], place: int) -> int:
    """The first token that is not an opening parenthesis."""
    inner = place
    while inner < len(tokens) and tokens[inner] == "(":
        inner += 1
    return inner
