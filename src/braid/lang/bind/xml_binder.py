"""Query blocks: syntax -> algebra.

The predicate of a join takes value-join normal form. Its XPath becomes part of the blocks: in
`x1/author = x5` the author is an unnamed node of the pattern. A comparison with a constant becomes
a test of its node. Only comparisons between a node of one block and a node of the other remain.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from braid.algebra.documents import (
    ENDLESS,
    FOLLOWED_BY,
    PRECEDED_BY,
    RESULT,
    Axis,
    Block,
    Documents,
    PatternNode,
    Test,
    ValueJoin,
    is_subtree,
)
from braid.algebra.expressions import Expression, Literal
from braid.algebra.nodes import Read
from braid.algebra.schema import TICKS
from braid.algebra.types import BIGINT, DOUBLE, DURATION, STRING, Kind, kind_of, sql_name
from braid.lang.bind.scopes import Bound
from braid.lang.bind.tables import Table
from braid.lang.parse import syntax, xml_syntax
from braid.lang.parse.problems import Problem, alternatives, listing
from braid.lang.parse.xml_parser import SUPPORTED, flipped

if TYPE_CHECKING:
    from braid.lang.bind.binder import Binder

_MOST_NODES = 60


def bind_documents(binder: Binder, node: xml_syntax.Documents) -> Bound:
    """The stream of an expression of blocks."""
    streams = [_stream(binder, block) for block in node.blocks]
    patterns = [_Pattern(binder) for _ in node.blocks]
    columns = tuple(_document_column(s, b) for s, b in zip(streams, node.blocks, strict=True))
    for pattern, block in zip(patterns, node.blocks, strict=True):
        pattern.read(block)
    names = _Names(patterns)
    label = "the result of the join" if node.joins else "the block"
    unit = streams[0].node.unit
    joins: list[ValueJoin] = []
    for number, (join, stream) in enumerate(zip(node.joins, streams[1:], strict=True), start=1):
        if stream.node.unit != unit:
            message = f"the streams of {join.kind} have different clocks: one counts ticks"
            raise Problem("E120", message, join.at, "a stream with an integer time counts ticks")
        _warn(binder, node, number)
        joins += filter(None, (names.comparison(c, number) for c in join.comparisons))
    return Bound(
        Documents(
            tuple(stream.node for stream in streams),
            columns,
            tuple(pattern.block() for pattern in patterns),
            tuple(map(_kind, node.joins)),
            tuple(joins),
            tuple(_window(binder, join.window, unit) for join in node.joins),
            () if node.places == tuple(range(len(node.places))) else node.places,
            streams=tuple(block.stream.name for block in node.blocks),
        ),
        label,
    )


def _kind(join: xml_syntax.Join) -> str:
    return PRECEDED_BY if join.exchanged and join.kind == FOLLOWED_BY else join.kind


def _warn(binder: Binder, node: xml_syntax.Documents, number: int) -> None:
    """Warn of the documents that a join without a window keeps."""
    join = node.joins[number - 1]
    if join.window.amount is not None or join.window.parameter is not None:
        return
    first, last = (node.blocks[n].stream.name for n in (0, number))
    kept = f"every document of {' and '.join(dict.fromkeys((first, last)))}"
    if number > 1:
        other = "in parentheses" if join.exchanged else "before it"
        kept = f"every result of the join {other} and every document of {last}"
    binder.warnings.append(("W202", f"{join.kind} within any time keeps {kept} for ever"))


def _stream(binder: Binder, block: xml_syntax.Block) -> Bound:
    ident = syntax.Ident(block.stream.name, block.stream.at)
    bound = binder.either(syntax.Source(ident, ident.at))
    if isinstance(bound, Table) or not isinstance(bound.node, Read):
        hint = "publish it as a stream and read that"
        raise Problem("E226", f"{ident.name} is no stream of documents", ident.at, hint)
    return bound


def _document_column(stream: Bound, block: xml_syntax.Block) -> str:
    """The column of a stream's documents: its only text, or an element that a query builds."""
    column = _only_text(stream, block)
    if block.steps and column in stream.documents and (column in stream.json) != block.json:
        raise _other_language(stream, block)
    return column


def _other_language(stream: Bound, block: xml_syntax.Block) -> Problem:
    name = block.stream.name
    if block.json:
        message, hint = f"{stream.label} has XML documents, and this is JSONPath", f"{name}//book"
    else:
        message, hint = f"{stream.label} has JSON documents, and this is XPath", f"{name}$..book"
    return Problem("E230", message, block.at, f"write e.g. {hint}")


def _only_text(stream: Bound, block: xml_syntax.Block) -> str:
    texts = [a.name for a in stream.schema if kind_of(a.type) is Kind.STRING]
    others = [name for name in texts if name != "id"]
    if RESULT in texts:
        return RESULT
    if len(others) == 1:
        return others[0]
    hint = "CREATE STREAM S (doc XML, ts TIMESTAMP) TIME ts"
    what = f"has {listing(texts)}" if texts else "has no text"
    message = f"a stream of documents has one column of type XML or JSON; {stream.label} {what}"
    raise Problem("E226", message, block.stream.at, hint)


def _window(binder: Binder, window: xml_syntax.Window, unit: str) -> Expression:
    type_ = BIGINT if unit == TICKS else DURATION
    if window.parameter is not None:
        declared = binder.constants.parameter(syntax.Parameter(window.parameter, window.at))
        if declared.type not in (type_, BIGINT):
            message = f":{window.parameter} is {sql_name(declared.type)}, not {sql_name(type_)}"
            raise Problem("E110", message, window.at)
        return declared
    if window.amount is None:
        return Literal(ENDLESS, type_)
    if unit == TICKS and not window.ticks:
        hint = "its time column is an integer: write a number of ticks"
        raise Problem("E114", "this stream counts ticks, not seconds", window.at, hint)
    return Literal(window.amount, type_)


@dataclass
class _Pattern:
    """A block in progress; `root` is the last step of its path."""

    binder: Binder
    nodes: list[PatternNode] = field(default_factory=list)
    variables: dict[str, tuple[int, xml_syntax.Word]] = field(default_factory=dict)
    root: int = -1
    json: bool = False

    def read(self, block: xml_syntax.Block) -> None:
        self.json = block.json
        if not block.steps:
            self.nodes.append(PatternNode(-1, Axis.CHILD, None))
        self.root = self.path(-1, block.steps) if block.steps else 0

    def path(self, above: int, steps: tuple[xml_syntax.Step, ...]) -> int:
        """Add the steps below a node; returns the last of them."""
        for step in steps:
            if above >= 0 and self.nodes[above].axis >= Axis.ATTRIBUTE:
                raise Problem("E221", "an attribute has nothing below it", step.at, SUPPORTED)
            above = self._step(above, step)
        return above

    def _step(self, above: int, step: xml_syntax.Step) -> int:
        name = None if step.name is None else self._name(step.name)
        variable = step.variable
        number = len(self.nodes)
        if number >= _MOST_NODES:
            raise Problem("E228", f"a block has at most {_MOST_NODES} nodes", step.at)
        shown = None if variable is None else variable.name
        self.nodes.append(PatternNode(above, Axis(step.axis), name, (), shown))
        if variable is not None:
            if variable.name in self.variables:
                raise Problem("E225", f"there are two variables {variable.name!r}", variable.at)
            self.variables[variable.name] = (number, variable)
        self.ask(number, step.predicates)
        return number

    def ask(self, number: int, predicates: tuple[xml_syntax.Predicate, ...]) -> None:
        """Add the predicates in brackets after a node."""
        for predicate in predicates:
            leaf = self.path(number, predicate.steps)
            if predicate.operator is not None and predicate.literal is not None:
                self.test(leaf, predicate.operator, predicate.literal)

    def _name(self, word: xml_syntax.Word) -> Expression:
        if not word.parameter:
            return Literal(word.name, STRING)
        declared = self.binder.constants.parameter(syntax.Parameter(word.name, word.at))
        if kind_of(declared.type) is not Kind.STRING:
            message = f":{word.name} is {sql_name(declared.type)}, and names are STRING"
            raise Problem("E110", message, word.at)
        return declared

    def test(self, number: int, operator: str, literal: xml_syntax.Literal) -> None:
        constant = self._constant(literal)
        if kind_of(constant.type) is Kind.STRING and operator not in ("=", "!="):
            hint = "texts are compared by = and !=; write a number without quotes"
            raise Problem("E227", f"{operator} compares numbers", literal.at, hint)
        node = self.nodes[number]
        self.nodes[number] = replace(node, tests=(*node.tests, Test(operator, constant)))

    def _constant(self, literal: xml_syntax.Literal) -> Expression:
        if not literal.parameter:
            return Literal(literal.value, STRING if isinstance(literal.value, str) else DOUBLE)
        name = str(literal.value)
        declared = self.binder.constants.parameter(syntax.Parameter(name, literal.at))
        if declared.type not in (STRING, DOUBLE):
            message = f":{name} is {sql_name(declared.type)}, and values are STRING or DOUBLE"
            raise Problem("E110", message, literal.at)
        return declared

    def block(self) -> Block:
        return Block(tuple(self.nodes), self.root)


class _Names:
    """The variables of all blocks of a query."""

    def __init__(self, patterns: list[_Pattern]) -> None:
        self._patterns = patterns
        self._known: dict[str, int] = {}
        count = max(2, len(patterns))
        taken = {"document", RESULT, *(f"document_{k + 1}" for k in range(count))}
        for number, pattern in enumerate(patterns):
            for name, (_, word) in pattern.variables.items():
                if name in self._known:
                    hint = f"call one of them {name}'"
                    raise Problem("E225", f"two blocks have a variable {name!r}", word.at, hint)
                if name in taken or is_subtree(name):
                    message = f"{name!r} is a column of every result"
                    raise Problem("E225", message, word.at, "choose another name")
                self._known[name] = number

    def comparison(self, node: xml_syntax.Comparison, number: int) -> ValueJoin | None:
        """A join of two nodes; None if it was a test of one against a constant.

        `number`: the block whose join with those before it has this in its predicate.
        """
        left, right = node.left, node.right
        if left.literal is not None and right.literal is not None:
            raise Problem("E224", "this compares two constants", node.at)
        if left.literal is not None:
            side, leaf = self._leaf(right, number)
            self._patterns[side].test(leaf, flipped(node.operator), left.literal)
            return None
        if right.literal is not None:
            side, leaf = self._leaf(left, number)
            self._patterns[side].test(leaf, node.operator, right.literal)
            return None
        (side, first), (other, second) = self._leaf(left, number), self._leaf(right, number)
        if side == other:
            hint = "a join compares a value of one block with a value of another"
            raise Problem("E224", "both sides belong to one block", node.at, hint)
        if side < other:
            return ValueJoin(first, node.operator, second, (side, other))
        return ValueJoin(second, flipped(node.operator), first, (other, side))

    def _leaf(self, operand: xml_syntax.Operand, last: int) -> tuple[int, int]:
        word = operand.variable
        assert word is not None
        side = self._known.get(word.name)
        if side is None:
            hint = alternatives("variables", word.name, self._known)
            raise Problem("E224", f"there is no variable {word.name!r}", word.at, hint)
        if side > last:
            hint = "compare it in the join of its own block, or of a later one"
            message = f"{word.name!r} is bound by a block that is no part of this join"
            raise Problem("E224", message, word.at, hint)
        pattern = self._patterns[side]
        number, _ = pattern.variables[word.name]
        if (operand.steps or operand.predicates) and operand.json != pattern.json:
            hint = f"write {word.name}.name" if pattern.json else f"write {word.name}/name"
            message = f"the path of {word.name} is not in the language of its block"
            raise Problem("E232", message, operand.at, hint)
        if operand.steps and operand.steps[-1].variable is not None:
            raise Problem("E224", "a variable is bound in a block", operand.steps[-1].at)
        pattern.ask(number, operand.predicates)
        return side, pattern.path(number, operand.steps)
