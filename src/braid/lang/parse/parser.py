"""Tokens -> syntax tree.

The LALR tables are made or loaded when the first text is parsed, so that the import is cheap.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, cast

from lark import Lark, Token, UnexpectedToken, v_args
from lark.lexer import Lexer

from braid.algebra.functions import AGGREGATES
from braid.lang.parse import syntax
from braid.lang.parse.constraint_syntax import ConstraintBuilder
from braid.lang.parse.durations import in_all, microseconds
from braid.lang.parse.limits import MAX_DEPTH, MAX_HELD, MAX_INPUTS
from braid.lang.parse.parse_errors import explain
from braid.lang.parse.problems import At, Problem, Problems
from braid.lang.parse.soft_keywords import with_relational_words
from braid.lang.parse.tokens import TOO_DEEP, Piece, unquote
from braid.lang.parse.xml_syntax import Documents
from braid.lang.parse.xml_tokens import DocumentsToken, with_documents


class _Feed(Lexer):
    """The lexer's tokens for the parser, with a limit on the parser's stack: NOT NOT NOT ... nests
    without brackets."""

    __future_interface__ = 1

    def __init__(self, conf: object) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:
        held = parser_state.state_stack
        for token in lexer_state.text:
            if len(held) > MAX_HELD:
                raise _too_deep(_at(token))
            yield token


def _at(token: Token) -> At:
    return (token.start_pos or 0, token.end_pos or 0)


def _from_to(first: Any, last: Any) -> At:
    start = first.start_pos if isinstance(first, Token) else first.at[0]
    end = last.end_pos if isinstance(last, Token) else last.at[1]
    return (start or 0, end or 0)


def _given(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(v for v in values if v is not None)


@v_args(inline=True)
class _Builder(ConstraintBuilder):
    """One method for each alternative of the grammar, called with the parts that it keeps."""

    # --- names and types ---

    def name(self, token: Token) -> syntax.Ident:
        value = unquote(token) if token.type == "QUOTED" else str(token)
        return syntax.Ident(value, _at(token))

    def plain_type(self, name: syntax.Ident) -> syntax.TypeName:
        return syntax.TypeName(name, (), (), name.at)

    def sized_type(self, name: syntax.Ident, *rest: Token) -> syntax.TypeName:
        *sizes, close = rest
        for size in sizes:
            if not size.isdigit():
                raise Problem("E121", "the size of a type is a whole number", _at(size))
        return syntax.TypeName(name, tuple(map(int, sizes)), (), _from_to(name, close))

    def nested_type(self, name: syntax.Ident, _: Token, *rest: Any) -> syntax.TypeName:
        *fields, close = rest
        return syntax.TypeName(name, (), tuple(fields), _from_to(name, close))

    def parameter(self, type_: syntax.TypeName) -> tuple[None, syntax.TypeName]:
        return (None, type_)

    def named_parameter(self, *parts: Any) -> tuple[syntax.Ident, syntax.TypeName]:
        return (parts[0], parts[-1])

    # --- scalar expressions ---

    def number(self, token: Token) -> syntax.Number:
        return syntax.Number(str(token), _at(token))

    ticks = number

    def period(self, *tokens: Token) -> syntax.Period:
        at = _from_to(tokens[0], tokens[-1])
        parts = zip(tokens[::2], tokens[1::2], strict=True)
        return syntax.Period(in_all([microseconds(n, u, _at(u)) for n, u in parts], at), at)

    def text(self, token: Token) -> syntax.Text:
        return syntax.Text(unquote(token), _at(token))

    def constant(self, token: Token) -> syntax.Constant:
        value = {"TRUE": True, "FALSE": False}.get(token.type)
        return syntax.Constant(value, _at(token))

    def placeholder(self, colon: Token, name: syntax.Ident) -> syntax.Parameter:
        return syntax.Parameter(name.name, _from_to(colon, name))

    def dur(self, token: Token) -> syntax.Dur:
        return syntax.Dur(_at(token))

    def reference(self, name: syntax.Ident) -> syntax.Name:
        return syntax.Name(None, name.name, name.at)

    def decorated(self, dollar: Token, name: syntax.Ident) -> syntax.Name:
        return syntax.Name(str(dollar), name.name, _from_to(dollar, name))

    def inner(self, expression: syntax.Scalar, _: Token) -> syntax.Scalar:
        return expression

    def call(self, name: syntax.Ident, *rest: Any) -> syntax.Apply:
        *args, close = rest
        return syntax.Apply(name, _given(tuple(args)), False, False, _from_to(name, close))

    def call_star(self, name: syntax.Ident, _: Token, close: Token) -> syntax.Apply:
        return syntax.Apply(name, (), False, True, _from_to(name, close))

    def call_distinct(self, name: syntax.Ident, _: Token, *rest: Any) -> syntax.Apply:
        *args, close = rest
        return syntax.Apply(name, tuple(args), True, False, _from_to(name, close))

    def cast(
        self, word: Token, operand: syntax.Scalar, type_: syntax.TypeName, close: Token
    ) -> syntax.Cast:
        return syntax.Cast(operand, type_, _from_to(word, close))

    def branch(self, condition: syntax.Scalar, value: syntax.Scalar) -> tuple[Any, Any]:
        return (condition, value)

    def case(self, word: Token, subject: Any, *rest: Any) -> syntax.Case:
        *branches, otherwise = rest
        last = otherwise or branches[-1][1]
        at = _from_to(word, last)
        return syntax.Case(subject, tuple(branches), otherwise, at)

    def field(self, operand: syntax.Scalar, name: syntax.Ident) -> syntax.Field:
        return syntax.Field(operand, name, _from_to(operand, name))

    def element(self, operand: syntax.Scalar, index: syntax.Scalar, close: Token) -> syntax.Element:
        return syntax.Element(operand, index, _from_to(operand, close))

    def prefix(self, operator: Token, operand: syntax.Scalar) -> syntax.Scalar:
        at = _from_to(operator, operand)
        match operand:
            case syntax.Number(text=text) if operator.type == "MINUS" and text[0] != "-":
                return syntax.Number(f"-{text}", at)
        return syntax.Prefix(operator.upper(), operand, at)

    def infix(self, left: syntax.Scalar, operator: Token, right: syntax.Scalar) -> syntax.Infix:
        return syntax.Infix(operator.upper(), left, right, _from_to(left, right))

    def any_of(self, *parts: syntax.Scalar) -> syntax.Junction:
        return _junction("or", parts)

    def all_of(self, *parts: syntax.Scalar) -> syntax.Junction:
        return _junction("and", parts)

    def is_null(self, operand: syntax.Scalar, *words: Token) -> syntax.IsNull:
        negated = len(words) == 3
        return syntax.IsNull(operand, negated, _from_to(operand, words[-1]))

    def between(self, operand: syntax.Scalar, *rest: Any) -> syntax.Between:
        low, high = rest[-2:]
        return syntax.Between(operand, low, high, len(rest) == 4, _from_to(operand, high))

    def among(self, operand: syntax.Scalar, *rest: Any) -> syntax.Among:
        *parts, close = rest
        choices = tuple(p for p in parts if not isinstance(p, Token))
        negated = len(parts) - len(choices) == 2
        return syntax.Among(operand, choices, negated, _from_to(operand, close))

    def like(self, operand: syntax.Scalar, *rest: Any) -> syntax.Like:
        return syntax.Like(operand, rest[-1], len(rest) == 3, _from_to(operand, rest[-1]))

    # --- streams ---

    def everything(self, star: Token) -> syntax.Everything:
        return syntax.Everything(_at(star))

    def item(self, expression: syntax.Scalar, name: syntax.Ident | None) -> syntax.Item:
        return syntax.Item(expression, name, _from_to(expression, name or expression))

    def markup(self, *parts: Any) -> syntax.Markup:
        pieces, values = parts[::2], parts[1::2]
        texts = tuple(piece.text for piece in pieces)
        inside = tuple(piece.in_attribute for piece in pieces[:-1])
        return syntax.Markup(texts, values, inside, _from_to(pieces[0], pieces[-1]))

    def items(self, *items: Any) -> tuple[Any, ...]:
        return items

    def everything_of(self, operand: syntax.Scalar, star: Token) -> syntax.Everything:
        return syntax.Everything(_from_to(operand, star), operand)

    def select(self, distinct: Token | None, items: tuple[Any, ...]) -> _Select:
        return _Select(items, distinct is not None, None)

    def select_stream(
        self, distinct: Token | None, kind: Token, items: tuple[Any, ...], _: Token
    ) -> _Select:
        return _Select(items, distinct is not None, syntax.Ident(str(kind), _at(kind)))

    def query(self, select: _Select | None, inputs: Any, *rest: Any) -> syntax.AnyQuery:
        select = select or _Select(None, False, None)
        where, group, having, publish = rest
        only: syntax.Input = inputs[0]
        plain = len(inputs) == 1 and only.window is None and only.alias is None
        if plain and not any((where, group, having, *select[1:])) and _is_plain(select.items):
            return syntax.Query(select.items, only.stream, publish, only.stream.at)
        items, distinct, kind = select
        at = only.stream.at
        return syntax.Relational(
            items, distinct, kind, inputs, where, group or (), having, publish, at
        )

    def to_stream(self, kind: Token, query: Any, _: Token, publish: Any) -> syntax.Relational:
        return _to_stream(syntax.Ident(str(kind), _at(kind)), query, publish)

    def detect(
        self, word: Token, name: Any, inputs: Any, where: Any, *settings: Any
    ) -> syntax.Detect:
        return syntax.Detect(inputs, where, settings, name, name.at if name else _at(word))

    def partition(self, *keys: syntax.Column) -> syntax.Setting:
        return syntax.Setting("PARTITION BY", keys, None, _from_to(keys[0], keys[-1]))

    def setting(self, word: Token, *rest: Token) -> syntax.Setting:
        values = tuple(
            self.number(t) if t.type == "NUMBER" else syntax.Ident(str(t), _at(t)) for t in rest
        )
        last = rest[-1] if rest else word
        return syntax.Setting(word.upper(), values, None, _from_to(word, last))

    def batch(self, word: Token, size: Any, length: Any) -> syntax.Setting:
        return syntax.Setting("BATCH", (size,), length, _from_to(word, length or size))

    # --- relations ---

    def inputs(self, *inputs: syntax.Input) -> tuple[syntax.Input, ...]:
        if len(inputs) > MAX_INPUTS:
            message = f"FROM has {len(inputs):,} inputs: {MAX_INPUTS} are the most"
            hint = "publish a part of the join as a stream of its own"
            raise Problem("E127", message, inputs[MAX_INPUTS].at, hint)
        return inputs

    def input(self, stream: syntax.Stream, window: Any, alias: Any) -> syntax.Input:
        return syntax.Input(stream, window, alias, stream.at)

    def short_alias(self, token: Token) -> syntax.Ident:
        return syntax.Ident(unquote(token) if token[0] == "`" else str(token), _at(token))

    def where(self, predicate: syntax.Scalar) -> syntax.Scalar:
        return predicate

    def group(self, *keys: syntax.Scalar) -> tuple[syntax.Scalar, ...]:
        return keys

    def having(self, predicate: syntax.Scalar) -> syntax.Scalar:
        return predicate

    def windowed(self, stream: syntax.Stream, window: syntax.Window, _: Token) -> syntax.Windowed:
        return syntax.Windowed(stream, window, stream.at)

    def range_window(self, size: Any, _: Token) -> syntax.Window:
        return syntax.Window("range", size, (), size.at)

    def rows_window(self, *parts: Any) -> syntax.Window:
        *keys, size, _ = parts
        return syntax.Window("rows", size, tuple(keys), size.at)

    def now_window(self, close: Token) -> syntax.Window:
        return syntax.Window("now", None, (), _at(close))

    def unbounded_window(self, close: Token) -> syntax.Window:
        return syntax.Window("unbounded", None, (), _at(close))

    def key(self, first: syntax.Ident, second: syntax.Ident | None) -> syntax.Column:
        if second is None:
            return syntax.Column(None, first, first.at)
        return syntax.Column(first, second, _from_to(first, second))

    def amount(self, minus: Token | None, *numbers: Token) -> syntax.Number:
        """A number that may have commas in it: `50,000`."""
        at = _from_to(minus or numbers[0], numbers[-1])
        first, *groups = numbers
        if groups and not (_is_group(first, 1) and all(_is_group(group, 3) for group in groups)):
            hint = "a comma stands before each three digits: 50,000"
            raise Problem("E177", "this is not a number", at, hint)
        return syntax.Number("-" * (minus is not None) + "".join(numbers), at)

    def whole_amount(self, amount: syntax.Number) -> syntax.Number:
        if not amount.text.removeprefix("-").isdigit():
            hint = "a window has a whole number of rows or ticks, or a time such as 10 minutes"
            raise Problem("E177", f"{amount.text} is not a length", amount.at, hint)
        return amount

    def length_of_time(self, *parts: Any) -> syntax.Period:
        found: list[int] = []
        for amount, unit in zip(parts[::2], parts[1::2], strict=True):
            if amount.text.startswith("-"):
                raise Problem("E177", "a window cannot have a negative length", amount.at)
            found.append(microseconds(amount.text, str(unit), _at(unit)))
        at = _from_to(parts[0], parts[-1])
        return syntax.Period(in_all(found, at), at)

    def source(self, name: syntax.Ident) -> syntax.Source:
        return syntax.Source(name, name.at)

    def documents(self, token: DocumentsToken) -> Documents:
        return token.documents

    def filter(self, word: Token, predicate: Any, stream: syntax.Stream) -> syntax.Filter:
        return syntax.Filter(predicate, stream, _at(word))

    def sametime(self, word: Token, items: Any, stream: syntax.Stream) -> syntax.SameTime:
        return syntax.SameTime(items, stream, _at(word))

    def nested(self, stream: syntax.Stream, _: Token) -> syntax.Stream:
        return stream

    def next(
        self, first: syntax.Stream, word: Token, predicate: Any, second: syntax.Stream
    ) -> syntax.Next:
        return syntax.Next(first, second, predicate, _at(word))

    def fold(self, first: syntax.Stream, word: Token, *rest: Any) -> syntax.Fold:
        predicate, rebind, aggregates, second = rest
        return syntax.Fold(first, second, predicate, rebind, aggregates or (), _at(word))

    def union(self, first: syntax.Stream, word: Token, second: syntax.Stream) -> syntax.Union:
        return syntax.Union(first, second, _at(word))

    # --- statements ---

    def column(self, name: syntax.Ident, type_: syntax.TypeName) -> tuple[Any, Any]:
        return (name, type_)

    def time(self, *names: Any) -> syntax.Option:
        known = tuple(n for n in names if isinstance(n, syntax.Ident))
        return syntax.Option("time", known, None, _from_to(known[0], known[-1]))

    def sequence(self, name: syntax.Ident) -> syntax.Option:
        return syntax.Option("sequence", (name,), None, name.at)

    def lateness(self, amount: syntax.Period | syntax.Number) -> syntax.Option:
        return syntax.Option("lateness", (), amount, amount.at)

    def sharable(self, *names: syntax.Ident) -> syntax.Option:
        return syntax.Option("sharable", names, None, _from_to(names[0], names[-1]))

    def create_stream(self, name: syntax.Ident, *rest: Any) -> syntax.CreateStream:
        columns = tuple(r for r in rest if isinstance(r, tuple))
        options = tuple(r for r in rest if isinstance(r, syntax.Option))
        return syntax.CreateStream(name, columns, options, name.at)

    def for_each(self, *columns: tuple[Any, Any] | Token) -> tuple[Any, ...]:
        return tuple(c for c in columns if isinstance(c, tuple))

    def view_columns(self, *names: Any) -> tuple[syntax.Ident, ...]:
        return tuple(name for name in names if isinstance(name, syntax.Ident))

    def create_view(
        self, name: syntax.Ident, columns: tuple[Any, ...] | None, query: syntax.AnyQuery
    ) -> syntax.CreateView:
        return syntax.CreateView(name, columns or (), query, name.at)

    def drop_view(self, name: syntax.Ident) -> syntax.DropView:
        return syntax.DropView(name, name.at)

    def create_query(
        self,
        name: syntax.Ident,
        mode: syntax.Ident | None,
        parameters: tuple[Any, ...] | None,
        query: syntax.AnyQuery,
    ) -> syntax.CreateQuery:
        return syntax.CreateQuery(name, parameters or (), query, name.at, mode)

    def create_query_each(
        self,
        name: syntax.Ident,
        parameters: tuple[Any, ...],
        mode: syntax.Ident,
        query: syntax.AnyQuery,
    ) -> syntax.CreateQuery:
        return syntax.CreateQuery(name, parameters, query, name.at, mode)

    def drop_query(self, name: syntax.Ident) -> syntax.DropQuery:
        return syntax.DropQuery(name, name.at)


class _Select(NamedTuple):
    """The words between SELECT and FROM."""

    items: tuple[syntax.Item | syntax.Everything, ...] | None
    distinct: bool
    to_stream: syntax.Ident | None


def _is_plain(items: tuple[syntax.Item | syntax.Everything, ...] | None) -> bool:
    """Whether SELECT only computes attributes: no aggregate, no `A.*`."""
    return not any(
        item.of is not None if isinstance(item, syntax.Everything) else has_aggregate(item)
        for item in items or ()
    )


def has_aggregate(part: Any) -> bool:
    """Whether a part of a syntax tree calls an aggregate, at any depth."""
    todo = [part]
    while todo:
        part = todo.pop()
        if isinstance(part, tuple):
            todo.extend(part)
        elif isinstance(part, syntax.Apply) and part.function.name.lower() in AGGREGATES:
            return True
        else:
            slots = getattr(part, "__slots__", ())
            todo.extend(getattr(part, name) for name in slots if name != "at")
    return False


def _to_stream(
    kind: syntax.Ident, query: syntax.AnyQuery, publish: syntax.Ident | None
) -> syntax.Relational:
    """The query in `Istream(query)`, with the function as its property."""
    if isinstance(query, syntax.Query):
        only = syntax.Input(query.stream, None, None, query.stream.at)
        query = syntax.Relational(
            query.items, False, None, (only,), None, (), None, query.publish, query.at
        )
    if isinstance(query, syntax.Detect):
        raise Problem("E179", f"{kind.name} takes a relation", kind.at, "DETECT gives a stream")
    if query.to_stream is not None:
        hint = f"{query.to_stream.name} has made a stream of it already"
        raise Problem("E179", f"{kind.name} takes a relation", kind.at, hint)
    if publish is not None and query.publish is not None:
        raise Problem("E132", "this query is published twice", publish.at)
    return replace(query, to_stream=kind, publish=publish or query.publish)


def _is_group(number: str, least: int) -> bool:
    return number.isdigit() and least <= len(number) <= 3


def _junction(operator: str, parts: tuple[syntax.Scalar, ...]) -> syntax.Junction:
    return syntax.Junction(operator, parts, _from_to(parts[0], parts[-1]))


@cache
def _parser() -> Lark:
    """The parser, with its tables in the kernel cache: making them takes longer than registering a
    query."""
    grammar = (
        resources.files("braid.lang.parse").joinpath("grammar.lark").read_text(encoding="utf-8")
    )
    return Lark(
        grammar,
        parser="lalr",
        lexer=_Feed,
        start="statement",
        transformer=_Builder(),
        cache=_tables() or False,
    )


def _tables() -> str | None:
    """The file with the tables of the grammar, or None if there is none and none can be written. A
    file that was made from another grammar is replaced."""
    file = Path(__file__).parent / "__pycache__" / "grammar.tables"
    with suppress(OSError):
        file.parent.mkdir(exist_ok=True)
    return str(file) if file.exists() or os.access(file.parent, os.W_OK) else None


def parse(piece: Piece) -> syntax.Statement:
    """One statement; raises `Problem` or `Problems` with all known errors."""
    if piece.problems:
        raise Problems(piece.problems)
    tokens = with_relational_words(with_documents(piece.tokens))
    try:
        statement = cast(syntax.Statement, _parser().parse(cast(Any, tokens)))
    except UnexpectedToken as error:
        raise explain(error, tokens) from None
    if len(piece.tokens) > MAX_DEPTH:
        _check_depth(statement)
    return statement


#: The frame that makes a statement of an expression, so that one grammar's tables parse both.
_BEFORE = [Token("_FROM", "FROM"), Token("FILTER", "FILTER"), Token("_LBRACE", "{")]
_AFTER = [Token("_RBRACE", "}"), Token("NAME", "S")]


def parse_expression(tokens: Sequence[Token]) -> syntax.Scalar | None:
    """The expression in the tokens, or None if they are not an expression."""
    try:
        statement = _parser().parse(cast(Any, [*_BEFORE, *tokens, *_AFTER]))
    except UnexpectedToken:
        return None
    match cast(syntax.Statement, statement):
        case syntax.Query(stream=syntax.Filter(predicate=predicate)):
            return predicate
    return None


def _check_depth(statement: syntax.Statement) -> None:
    """Refuse nesting that recursion could not walk. Each level takes at least one token, so the
    check of few tokens is quick."""
    deepest, part = depth_of(statement)
    if deepest > MAX_DEPTH:
        raise _too_deep(part.at)


def _too_deep(at: At) -> Problem:
    return Problem("E122", f"more than {MAX_DEPTH} levels of nesting", at, TOO_DEEP)


def depth_of(whole: Any) -> tuple[int, Any]:
    """The number of levels of a syntax tree, and a part at the first level that is too deep."""
    todo: list[tuple[Any, int]] = [(whole, 0)]
    deepest, found = 0, whole
    while todo:
        part, depth = todo.pop()
        if isinstance(part, tuple):
            todo.extend([(p, depth) for p in part])
        elif hasattr(part, "at"):
            if depth > deepest:
                deepest, found = depth, part
            if depth > MAX_DEPTH:
                break
            todo.extend([(getattr(part, n), depth + 1) for n in part.__slots__ if n != "at"])
    return deepest, found
