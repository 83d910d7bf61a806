"""Query blocks, and joins between them: tokens -> syntax tree; blocks in JSONPath:
`json_parser.py`.

The grammar doesn't read blocks: XPath has its own names (`item-url`, `select`) and its own use of
`/`, `*` and `.`, and errors name the unsupported parts of it. The main parser sees a whole
expression of blocks and joins as one token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lark import Token

from braid.algebra.documents import FOLLOWED_BY, JOIN, Axis
from braid.lang.parse.block_tokens import LEFT_OUT, OPERATORS, is_word
from braid.lang.parse.durations import microseconds
from braid.lang.parse.json_parser import JsonPaths
from braid.lang.parse.limits import MAX_INPUTS, whole_number
from braid.lang.parse.problems import At, Problem
from braid.lang.parse.xml_syntax import (
    Block,
    Comparison,
    Documents,
    Join,
    Operand,
    Predicate,
    Step,
    Window,
    Word,
)

SUPPORTED = (
    "supported are /, //, @, *, [path], [path = constant] with AND, and -> or AS for variables"
)

_COMPARISONS = "a join compares values: x2 = x5 AND x3 < x6"

_FLIPPED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def flipped(operator: str) -> str:
    """The comparison with its sides exchanged."""
    return _FLIPPED[operator]


def starts_block(tokens: Sequence[Token], at: int) -> bool:
    """Whether a block, or a stream that is joined like one, begins at a token."""
    if at >= len(tokens) or not (is_word(tokens[at]) or tokens[at].type == "QUOTED"):
        return False
    if at + 1 < len(tokens) and tokens[at + 1] in ("/", "//", "$"):
        return True
    return joins_at(tokens, at + 1)


def joins_at(tokens: Sequence[Token], at: int) -> bool:
    words = [token.upper() for token in tokens[at : at + 2]]
    return words == ["FOLLOWED", "BY"] or words == ["JOIN", "{"]


def _joined(first: Documents, join: Join, second: Documents) -> Documents:
    """The two sides of a join as one list. A side that is a join comes first."""
    if first.joins and second.joins:
        hint = "publish one of them, and join the other with what it publishes"
        raise Problem("E229", "both sides of this join are joins", join.at, hint)
    if second.joins:
        first, second, join = second, first, replace(join, exchanged=True)
    blocks, places = first.blocks + second.blocks, first.places + second.places
    return Documents(blocks, (*first.joins, join), places, first.at)


class XmlParser(JsonPaths):
    """A parser of one expression of blocks, from a place in the tokens on."""

    #: The number of blocks so far.
    _blocks = 0

    # --- the whole ---

    def documents(self) -> Documents:
        """Blocks that are joined from the left. Either side may be a join in parentheses."""
        start = self._at()
        found = self._part()
        while joins_at(self._tokens, self.position):
            join = self._join()
            found = _joined(found, join, self._part())
            if len(found.blocks) > MAX_INPUTS:
                hint = "publish some of them, and join what they publish"
                message = f"more than {MAX_INPUTS} blocks are joined here"
                raise Problem("E127", message, join.at, hint)
        return replace(found, at=self._since(start))

    def _part(self) -> Documents:
        """One side of a join."""
        if self._now != "(":
            self._blocks += 1
            block = self._block()
            return Documents((block,), (), (self._blocks - 1,), block.at)
        self._expect("(", "before a block")
        found = self.documents()
        self._expect(")", "after a block")
        return found

    def _block(self) -> Block:
        start = self._at()
        stream = self._word("the name of a stream")
        json = self._now == "$"
        steps = self._document() if json else self._steps(bool(self._now))
        return Block(stream, steps, self._since(start), json)

    def _join(self) -> Join:
        start = self._at()
        kind = JOIN if self._take("JOIN") else FOLLOWED_BY
        if kind == FOLLOWED_BY:
            self.position += 2
        self._expect("{", f"after {kind}")
        comparisons: list[Comparison] = []
        while self._now not in (",", ""):
            comparisons.append(self._comparison())
            if self._now.upper() == "OR":
                hint = "write one query for each alternative"
                raise Problem("E222", "OR is not supported in a join", self._at(), hint)
            if not self._take("AND"):
                break
        self._expect(",", f"before the window of {kind}")
        window = self._window()
        self._expect("}", f"after the window of {kind}")
        return Join(kind, tuple(comparisons), window, self._since(start))

    def _window(self) -> Window:
        start = self._at()
        if self._now.upper() in ("UNBOUNDED", "INFINITY", "∞"):
            self.position += 1
            return Window(None, False, None, self._since(start))
        if self._take(":") or (self._now and is_word(self._tokens[self.position])):
            return Window(None, False, self._word("a parameter").name, self._since(start))
        found: list[int] = []
        ticks = False
        while self._now and self._tokens[self.position].type == "NUMBER":
            amount = self._now
            self.position += 1
            if self._now and is_word(self._tokens[self.position]):
                found.append(microseconds(amount, self._now, self._at()))
                self.position += 1
                continue
            number = whole_number(amount)
            if number is None:
                raise Problem("E223", f"{amount} is not a length of time", self._since(start))
            found, ticks = [number], True
            break
        if self.position and self._since(start)[1] <= start[0]:
            hint = "write e.g. FOLLOWED BY{x = y, 1 day}, or unbounded"
            raise Problem("E223", "the window of a join is a length of time", start, hint)
        total = sum(found)
        if total >= 2**61:
            raise Problem("E223", "this window is too long; write unbounded", self._since(start))
        return Window(total, ticks, None, self._since(start))

    # --- comparisons ---

    def _comparison(self) -> Comparison:
        start = self._at()
        left = self._operand()
        if self._now not in OPERATORS:
            message = f"expected a comparison, found {self._now!r}"
            raise Problem("E220", message, self._at(), _COMPARISONS)
        operator = OPERATORS[self._now]
        self.position += 1
        right = self._operand()
        return Comparison(left, operator, right, self._since(start))

    def _operand(self) -> Operand:
        start = self._at()
        literal = self._literal()
        if literal is not None:
            return Operand(None, (), literal, self._since(start))
        variable = self._word("a variable", _COMPARISONS)
        predicates: list[Predicate] = []
        json = False
        while self._now == "[" and (self._is_member() or self._is_path()):
            json = self._is_member()
            predicates += self._conditions() if json else self._in_brackets()
        json |= self._now in (".", "[")
        steps = self._members() if json else self._steps(True)
        return Operand(variable, steps, None, self._since(start), json, tuple(predicates))

    def _is_member(self) -> bool:
        """Whether brackets begin as in JSONPath: with a dot and a name."""
        return self._peek() == "." and (self._peek(2) in (".", "[", "*") or self._is_name(2))

    def _is_path(self) -> bool:
        """Whether brackets begin as in XPath."""
        if self._peek() == ".":
            return self._peek(2) in ("/", "//") or self._peek(2) in OPERATORS
        return self._peek() == "@" or self._is_name(1)

    def _in_brackets(self) -> list[Predicate]:
        self._expect("[", "before a predicate")
        found = self._predicates()
        self._expect("]", "after a predicate")
        return found

    # --- paths ---

    def _steps(self, may: bool) -> tuple[Step, ...]:
        steps: list[Step] = []
        while may and self._now in ("/", "//"):
            steps.append(self._step(self._now == "//"))
        return tuple(steps)

    def _step(self, descends: bool, *, slash: bool = True) -> Step:
        start = self._at()
        self.position += slash
        attribute = self._take("@")
        axis = Axis(2 * attribute + descends)
        name = None if self._take("*") else self._test()
        variable = self._variable()
        predicates: list[Predicate] = []
        while self._now == "[":
            predicates += self._in_brackets()
        if variable is None:
            variable = self._variable()
        return Step(axis, name, variable, tuple(predicates), self._since(start))

    def _test(self) -> Word:
        if self._now in (".", ".."):
            parent = self._now == ".." or self._peek() == "."
            raise self._unsupported("the parent (..)" if parent else "a step . inside a path")
        word = self._rest_of_name(self._word("the name of an element", SUPPORTED))
        if self._now == ":" and self._adjacent(0):
            if self._peek() == ":":
                raise self._unsupported(f"the axis {word.name}::", word.at)
            hint = "a name stands for elements of any namespace that are called so; " + SUPPORTED
            message = f"the namespace prefix {word.name}: is not supported in a block"
            raise Problem("E221", message, word.at, hint)
        if self._now == "(" and self._adjacent(0):
            raise self._unsupported(f"the function {word.name}()", word.at)
        return word

    def _unsupported(self, what: str, at: At | None = None) -> Problem:
        return Problem("E221", f"{what} is not supported in a block", at or self._at(), SUPPORTED)

    def _predicates(self) -> list[Predicate]:
        found = [self._predicate()]
        while self._take("AND"):
            found.append(self._predicate())
        if self._now.upper() in LEFT_OUT:
            raise self._unsupported(LEFT_OUT[self._now.upper()])
        return found

    def _predicate(self) -> Predicate:
        start = self._at()
        if self._now[:1].isdigit():
            raise self._unsupported(f"the position [{self._now}]")
        if self._now == "-":
            raise self._unsupported(f"the position [-{self._peek()}]")
        if self._now.upper() == "NOT" and self._peek() == "(":
            raise self._unsupported("not()")
        steps: tuple[Step, ...] = ()
        if self._take("."):
            if self._now == ".":
                raise self._unsupported("the parent (..)", start)
            steps = self._steps(True)
        elif self._now in ("/", "//"):
            hint = "write .// for what is below the node"
            raise Problem("E221", "a predicate cannot start at the document", self._at(), hint)
        else:
            steps = (self._step(False, slash=False), *self._steps(True))
        operator, literal = None, None
        if self._now in OPERATORS:
            operator = OPERATORS[self._now]
            self.position += 1
            literal = self._literal()
            if literal is None and self._now in ("]", ""):
                raise Problem("E220", "expected a text or a number", self._at(), SUPPORTED)
            if literal is None:
                raise self._unsupported("comparing two paths in a predicate")
        elif not steps:
            raise Problem("E220", "a predicate says something about a path", self._at(), SUPPORTED)
        return Predicate(steps, operator, literal, self._since(start))
