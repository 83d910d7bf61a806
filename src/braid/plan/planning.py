"""What the walk through a query's streams gives to those through its relations and joins."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from braid.algebra.constraints import Constraint, ConstraintMode
from braid.algebra.expressions import Expression
from braid.algebra.nodes import Node
from braid.algebra.relations import Join
from braid.plan.predicates import Clause, Lifter, Predicate
from braid.plan.routes import Bound, Recipe
from braid.plan.sharing import Channel, Operator, Sharing
from braid.plan.specs import Spec

#: Output attributes, each with the expression that computes it.
Items = tuple[tuple[str, Expression], ...]


class Planning(Protocol):
    """What the walk through a query's streams gives to that through its relations."""

    birth: int | None

    def has_rule(self, name: str) -> bool: ...

    def stream_of(self, node: Node) -> str | None: ...

    @property
    def constraints(self) -> tuple[ConstraintMode, tuple[Constraint, ...]]: ...

    @property
    def constrains_at_once(self) -> bool: ...

    @property
    def is_alone(self) -> bool: ...

    def without_members(self) -> AbstractContextManager[None]: ...

    def boxes(self, join: Join) -> tuple[Clause, ...] | None: ...

    def channel(
        self, node: Node, needed: Iterable[str], port: str, bounds: tuple[Bound, ...]
    ) -> Channel: ...

    def sharing(self, operator: Operator) -> Sharing: ...

    def add(
        self, operator: Operator, sharing: Sharing, spec: Spec, recipe: Recipe, *, membered: bool
    ) -> Channel: ...

    def selected(self, source: Channel, predicate: Predicate, port: str) -> Channel: ...

    def projected(self, source: Channel, items: Items, constants: tuple[Any, ...]) -> Channel: ...

    def lifted(self, expression: Expression, lifter: Lifter) -> Expression: ...
