"""The inputs of FROM, and the meaning of names over several inputs.

`A.x` is column x of the input called A by its alias, or else by the name of the stream or view. A
bare `x` is the column of the one input that has it. If WHERE equates the columns of several inputs
(`A.x = B.x`), then a bare `x` is the first input's column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from braid.algebra.expressions import Expression, Ref, Source
from braid.algebra.functions import AGGREGATES
from braid.algebra.relations import Relation, StreamKind, ToStream, column
from braid.algebra.schema import Schema
from braid.lang.bind.constants import Constants
from braid.lang.bind.expressions import Expressions
from braid.lang.bind.scopes import Aliases, Bound
from braid.lang.bind.user_functions import Functions
from braid.lang.parse import syntax
from braid.lang.parse.problems import At, Problem, alternatives, listing, similar


@dataclass(frozen=True, slots=True)
class Table:
    """A bound relation. `stream` is Istream of it, for readers of streams."""

    relation: Relation
    stream: Bound

    @staticmethod
    def of(
        relation: Relation,
        label: str,
        aliases: Aliases | None = None,
        times: tuple[str, ...] = (),
    ) -> Table:
        node = ToStream(relation, StreamKind.ISTREAM)
        return Table(relation, Bound(node, label, aliases or {}, times))

    @property
    def schema(self) -> Schema:
        return self.relation.schema


@dataclass(frozen=True, slots=True)
class Entry:
    """An input of FROM at its place; `label` is its name, if it has one."""

    number: int
    label: str | None
    table: Table
    alone: bool

    def ref(self, name: syntax.Name) -> Ref:
        own = self.table.stream.ref(Source.INPUT, name)
        return own if self.alone else Ref(own.source, column(self.number, own.name), own.type)

    def columns(self) -> Iterator[tuple[str, Ref]]:
        for attribute in self.table.schema:
            yield attribute.name, self.ref(syntax.Name(None, attribute.name, (0, 0)))


class FromScope:
    """The meaning of names in the clauses of a query over these inputs."""

    def __init__(self, entries: Sequence[Entry], where: syntax.Scalar | None) -> None:
        self.entries = entries
        self._equated = list(_equalities(where))

    @property
    def unit(self) -> str:
        return self.entries[0].table.relation.unit

    def entry(self, label: str) -> Entry | None:
        return next((e for e in self.entries if e.label == label), None)

    def labels(self) -> list[str]:
        return [entry.label for entry in self.entries if entry.label is not None]

    def knows(self, name: str) -> bool:
        return any(entry.table.stream.knows(name) for entry in self.entries)

    def resolve(self, name: syntax.Name) -> Expression:
        if name.decorator is not None:
            hint = "name the input: Stock.Price"
            message = f"{name.decorator}.{name.name}: decorators stand in patterns only"
            raise Problem("E115", message, name.at, hint)
        found = [e for e in self.entries if name.name in e.table.schema]
        found = found or [e for e in self.entries if e.table.stream.knows(name.name)]
        if not found and len(self.entries) > 1:
            raise self._unknown(name)
        if len(found) > 1 and not self._are_equal(found, name.name):
            choices = " or ".join(f"{e.label}.{name.name}" for e in found if e.label is not None)
            hint = f"write {choices}" if choices else "give the inputs names with AS"
            raise Problem("E107", f"several inputs have {name.name!r}", name.at, hint)
        return (found or self.entries)[0].ref(name)

    def duration(self, at: At) -> Expression:
        hint = "rows of a relation have no duration; use it in a pattern below or above"
        raise Problem("E115", "DUR cannot be used here", at, hint)

    def _unknown(self, name: syntax.Name) -> Problem:
        names = dict.fromkeys(n for e in self.entries for n in e.table.schema.names)
        guess = similar(name.name, names)
        known = "; ".join(
            f"{e.label or 'an input'} has {listing(e.table.schema.names)}" for e in self.entries
        )
        hint = f"did you mean {guess}? {known}" if guess else known
        return Problem("E103", f"no input has {name.name!r}", name.at, hint)

    def _are_equal(self, found: Sequence[Entry], name: str) -> bool:
        """Whether WHERE equates the columns of this name of all of these inputs."""
        pairs = [{a, b} for a, b, of in self._equated if of == name]
        linked = {found[0].label}
        for _ in pairs:
            linked |= {label for pair in pairs if pair & linked for label in pair}
        return all(entry.label is not None and entry.label in linked for entry in found)


def _equalities(where: syntax.Scalar | None) -> Iterator[tuple[str, str, str]]:
    """The conjuncts `A.x = B.x`: the two inputs, and the column."""
    match where:
        case syntax.Junction(operator="and", parts=parts):
            for part in parts:
                yield from _equalities(part)
        case syntax.Infix(
            operator="=" | "==",
            left=syntax.Field(operand=syntax.Name(decorator=None, name=a), name=x),
            right=syntax.Field(operand=syntax.Name(decorator=None, name=b), name=y),
        ) if x.name == y.name:
            yield a, b, x.name


def is_aggregate(node: syntax.Scalar, functions: Functions) -> bool:
    return (
        isinstance(node, syntax.Apply)
        and node.function.name.lower() in AGGREGATES
        and functions.get(node.function.name) is None
    )


class QualifiedExpressions(Expressions):
    """A binder of the expressions of one clause, `place`, that allows no aggregate."""

    def __init__(
        self, scope: FromScope, functions: Functions, constants: Constants, place: str
    ) -> None:
        super().__init__(scope, functions, constants)
        self.inputs = scope
        self.place = place

    def bind(self, node: syntax.Scalar) -> Expression:
        if is_aggregate(node, self.functions):
            raise _misplaced(node, self.place)
        return self.qualified(node) or super().bind(node)

    def qualified(self, node: syntax.Scalar) -> Expression | None:
        """`A.x`, if A is an input and not an attribute with fields."""
        match node:
            case syntax.Field(operand=syntax.Name(decorator=None) as owner, name=ident):
                entry = self.inputs.entry(owner.name)
                if entry is not None:
                    return entry.ref(syntax.Name(None, ident.name, ident.at))
                if not self.inputs.knows(owner.name):
                    raise unknown_input(owner.name, owner.at, self.inputs.labels())
        return None


def unknown_input(name: str, at: At, labels: Sequence[str]) -> Problem:
    hint = alternatives("inputs", name, labels)
    return Problem("E174", f"there is no input {name!r} in FROM", at, hint)


def _misplaced(node: syntax.Scalar, place: str) -> Problem:
    assert isinstance(node, syntax.Apply)
    name = node.function.name
    if place == "an aggregate":
        hint = "aggregate in a sub-query, and that result again"
        return Problem("E117", f"{name} stands inside another aggregate", node.at, hint)
    advice = "conditions on groups stand in HAVING" if place == "WHERE" else None
    return Problem("E117", f"{name} is an aggregate and cannot stand in {place}", node.at, advice)
