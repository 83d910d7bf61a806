"""The planning protocol: what the driver offers to the families that plan a query's operators.

The driver walks the expression of a query from the top. For each node it asks the family of that
node to plan it. The family asks the walk for the channels of the node's inputs, and adds a stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from braid.algebra.constraints import Constraint, ConstraintMode
from braid.algebra.expressions import Expression, Literal, Parameter, Ref, Source, refs
from braid.algebra.nodes import Node
from braid.algebra.relations import Join, Relation, ToStream
from braid.algebra.schema import Schema
from braid.plan.predicates import Clause, Lifter
from braid.plan.routes import Bound, Recipe, Stage
from braid.plan.shared_columns import Detail
from braid.plan.sharing import Channel, Operator, Sharing
from braid.plan.specs import Spec

#: Output attributes, each with the expression that computes it.
Items = tuple[tuple[str, Expression], ...]
#: Output attributes, each with the attribute of the operator that it shows.
Picked = tuple[tuple[str, str], ...]
#: Predicates that must all be true.
Conjuncts = tuple[Expression, ...]

#: The port of what comes out of the plan.
EXIT = "exit"


class NeedsOneQuery(Exception):
    """With these rules the m-ops of a query depend on its constants: plan it by itself."""


class Request(NamedTuple):
    """What is asked of a node.

    `needed`: the attributes. `port`: who reads it. `bounds`: how long an event may last to be of use.
    A composite (`Family.composites`) is also asked to apply `selection` to its events. `named`: a
    projection is asked for exactly the needed attributes, under their own names.
    """

    needed: frozenset[str]
    port: str
    bounds: tuple[Bound, ...] = ()
    selection: Expression | None = None
    named: bool = False


class RowsRequest(NamedTuple):
    """What is asked of a relation.

    `needed`: the columns. `asked`: predicates that must be true of its rows. `port`: who reads it.
    `speaks`: whether the streams below are remembered for Rstream. A composite is also asked to show
    what `picked` names: each output column, and the column of the relation that it shows.
    """

    needed: frozenset[str]
    asked: Conjuncts
    port: str
    speaks: bool
    picked: Picked | None = None


class Planning(Protocol):
    """The walk through a query's streams."""

    birth: int | None
    #: Whether what is read is one query's: its constants are part of what it is.
    frozen: bool

    def has_rule(self, name: str) -> bool:
        """Whether a rule or switch is on."""

    def stream_of(self, node: Node) -> str | None:
        """The stream that an expression is, declared or published, if it is one."""

    @property
    def constraints(self) -> tuple[ConstraintMode, tuple[Constraint, ...]]:
        """What the joins of this query may do, and all constraints that are declared."""

    @property
    def constrains_at_once(self) -> bool:
        """Whether joins look for constraints from the first event on, however little they hold."""

    @property
    def is_alone(self) -> bool:
        """Whether the query is planned by itself, so that its constants are known."""

    def without_members(self) -> AbstractContextManager[None]:
        """What is read here is one query's: its constants are part of what it is."""

    def boxes(self, join: Join) -> tuple[Clause, ...] | None:
        """What a join asks of single inputs, if it can be asked of whole streams that are held."""

    def channel(
        self, node: Node, needed: Iterable[str], port: str, bounds: tuple[Bound, ...]
    ) -> Channel:
        """The channel of a node, with at least the needed attributes under their own names."""

    def shared_channel(
        self, node: Node, needed: Iterable[str], port: str, bounds: tuple[Bound, ...]
    ) -> Channel:
        """The channel of a node as its operator writes it for all its readers: `columns_of` says in
        which column each attribute is."""

    def shared_columns(
        self, sharing: Sharing, needed: Mapping[str, Detail]
    ) -> tuple[tuple[str, Detail], ...]:
        """The columns that an m-op writes for all its members, which need these of it."""

    def planned(self, node: Node, request: Request) -> Channel:
        """The channel of a node, as a request asks for it."""

    def planned_rows(self, rows: RowPlanning, relation: Relation, request: RowsRequest) -> Channel:
        """The channel of a relation, as a request asks for it."""

    def form(self, type_: type, walk: Any, asked: Any, request: Any) -> Channel | None:
        """The channel of a special form of an operator, if one fits: see `Family.forms`."""

    def is_composite(self, node: Node | Relation) -> bool:
        """Whether it applies the selection and the picking of columns above it by itself."""

    def sharing(self, operator: Operator) -> Sharing:
        """With whom an operator shares an m-op, as the rules say."""

    def needs_one(self, sharing: Sharing, operator: Operator) -> None:
        """Have the query planned by itself if what is shared depends on its constants."""

    def refuse_parameters(self, part: object) -> None:
        """Have the query planned by itself if a part of it has constants of members."""

    def add(
        self, operator: Operator, sharing: Sharing, spec: Spec, recipe: Recipe, *, membered: bool
    ) -> Channel:
        """Add the stage of an operator; the channel that it writes."""

    def add_stage(self, stage: Stage) -> int:
        """Add a stage as it is; its number."""

    def lifted(self, expression: Expression, lifter: Lifter) -> Expression:
        """The expression with its constants taken out, as far as they can be."""


class RowPlanning(Protocol):
    """The walk through the relations of one Istream, Dstream or Rstream."""

    #: What makes a stream of the relations.
    output: ToStream
    #: The relation below selections and projections, if only its changes are asked for.
    only_changes: Relation | None
    #: The same relation, if Istream asks for what comes to it.
    only_coming: Relation | None
    #: The same relation, if joins may also have windows inside; its columns that are shown as they
    #: are.
    coming: Relation | None
    shown: frozenset[str]
    #: Sizes of the windows that a join has inside, while its inputs are walked.
    inside: list[Literal | Parameter | int] | None
    #: The streams under the windows as they are, with nothing asked of them.
    streams: list[Channel]
    walk: Planning

    @property
    def weight(self) -> Items:
        """What rows have besides their columns: a weight, unless a join reads events."""

    def rows(self, relation: Relation, request: RowsRequest) -> Channel:
        """The rows for which everything asked is true, with at least the needed columns."""

    def exactly(
        self,
        relation: Relation,
        names: tuple[str, ...],
        asked: Conjuncts,
        port: str,
        speaks: bool,
    ) -> Channel:
        """The rows for which everything asked is true, with just these columns in this order."""


@lru_cache(1 << 16)
def input_names(*expressions: Expression) -> frozenset[str]:
    """The attributes of the input that expressions refer to."""
    return frozenset(r.name for e in expressions for r in refs(e) if r.source is Source.INPUT)


def plain_items(schema: Schema, names: Iterable[str]) -> Items:
    """Columns as they are."""
    return tuple((n, Ref(Source.INPUT, n, schema.type_of(n))) for n in names)


def has_parameter(part: object) -> bool:
    """Whether constants of members are in a part of a query."""
    return "Parameter(" in repr(part)
