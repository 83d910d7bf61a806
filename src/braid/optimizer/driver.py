"""The driver: walks a query's expression, asks the rules, and gives the route through the plan.

Rules only say with whom an operator shares an m-op; the driver owns the traversal and names what the
rules made. The family of each node says which attributes the operator needs and what its m-op is
(`operators/registry.py`). Operators are added from the streams upwards, so that a rule sees inputs that have been shared already: that is how prefixes
merge. m-ops read channels that exist before them, and an m-op's schema follows from its spec,
so a route is acyclic and keeps every schema whatever rules are on; `Plan` checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as SequenceOf
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from braid.algebra.constraint_modes import safe_mode
from braid.algebra.constraints import Constraint, ConstraintMode
from braid.algebra.expressions import Expression, Parameter, walk
from braid.algebra.functions import is_vector
from braid.algebra.nodes import Extension, Node, Project, Read, SameTime, reads, walk_nodes
from braid.algebra.queries import Output
from braid.algebra.relations import Join, Relation, ToStream, walk_rows
from braid.algebra.schema import TICKS
from braid.algebra.streams import Stream
from braid.algebra.types import TIMESTAMP
from braid.operators.registry import REGISTRY
from braid.optimizer.rules import RULES
from braid.plan.boxes import boxes_of, streams_of
from braid.plan.channel_specs import EncodeSpec, StreamRecipe
from braid.plan.column_names import columns_of
from braid.plan.lower import lower
from braid.plan.normal_form import normal_node
from braid.plan.plan import source_channel
from braid.plan.planning import (
    EXIT,
    NeedsOneQuery,
    Request,
    RowPlanning,
    RowsRequest,
    has_parameter,
    plain_items,
)
from braid.plan.predicate_pushdown import rearrange
from braid.plan.predicates import Clause, Lifter
from braid.plan.routes import Bound, Exit, Recipe, Route, Stage
from braid.plan.shared_columns import Detail, SharedColumns
from braid.plan.sharing import Channel, Operator, Sharing, signature
from braid.plan.specs import Shape, Spec


def shares_channels(rules: frozenset[str]) -> bool:
    """Whether sharable streams are put together: without these rules nobody gains from it."""
    return not rules.isdisjoint({"c_seq", "c_mu", "c_sigma", "c_pi", "c_beta"})


def planned_form(node: Node) -> Node:
    """What is planned of a query's expression: the normal form, with selections where they are
    shared. What has been moved meets other parts, so the result is brought into order again."""
    return normal_node(rearrange(lower(rearrange(normal_node(node)))))


@dataclass(frozen=True)
class Published:
    """A stream that queries publish: the channel of its events, how times are shown."""

    channel: Channel
    time_type: pa.DataType


@dataclass
class Driver:
    """Routes for templates over given streams.

    `shapes`: what is read of each stream. `published`: streams to be read as they are.
    """

    streams: Mapping[str, Stream]
    shapes: Mapping[str, Shape]
    rules: frozenset[str]
    published: Mapping[str, Published] = field(default_factory=dict)
    #: The streams that a stream is one channel with, itself included; none if it is not read
    #: by a channel.
    sharable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: What joins may do with constraints unless their query says it, and those that were declared.
    mode: ConstraintMode = ConstraintMode.EXACT
    declared: tuple[Constraint, ...] = ()
    #: Whether joins look for constraints from the first event on, however little they hold.
    constrains_at_once: bool = False
    #: The names of inlined published streams, by definition, and by what is planned of it.
    published_names: dict[Node, str] = field(default_factory=dict)
    #: The columns that m-ops write for all queries.
    columns: SharedColumns = field(default_factory=SharedColumns)

    def name_published(self, node: Node, name: str) -> None:
        """Remember the name of an inlined published stream."""
        self.published_names |= {node: name, planned_form(node): name}

    def forget_published(self, node: Node) -> None:
        """The stream is not inlined any more."""
        self.published_names.pop(node, None)
        self.published_names.pop(planned_form(node), None)

    def may_use_constraints(
        self, outputs: SequenceOf[Output], mode: ConstraintMode | None = None
    ) -> bool:
        """Whether a query has a join that uses constraints if it is planned by itself."""
        use = REGISTRY.constraints
        if use is None or not self.uses_constraints(mode):
            return False
        return any(use.may_use(output.node, self.mode) for output in outputs)

    def uses_constraints(self, mode: ConstraintMode | None) -> bool:
        """Whether joins of queries that say this themselves may use constraints."""
        use = REGISTRY.constraints
        on = use is not None and use.rule in self.rules
        return on and (mode or self.mode) is not ConstraintMode.OFF

    def route(
        self,
        outputs: SequenceOf[Output],
        alone: str | None = None,
        birth: int | None = None,
        mode: ConstraintMode | None = None,
    ) -> Route:
        """The stages of a query. `alone`: its id, if it is planned by itself; without one, a rule
        that is off may make it a `NeedsOneQuery`. `birth`: since when it sees events, if that
        makes a difference to its operators (`depends_on_birth`). `mode`: what it says of
        constraints itself.
        """
        walk = _Walk(self, alone, birth, safe_mode(mode or self.mode, outputs))
        exits = tuple(walk.exit(output) for output in outputs)
        if self.declared:
            _watch(walk, [output.node for output in outputs])
        return Route(tuple(walk.stages), exits)

    def time_type(self, node: Node) -> pa.DataType:
        """How results show their interval: as the sources do, if they agree."""
        if node.unit == TICKS:
            return pa.int64()
        types = {
            self.published[s].time_type if s in self.published else _shown_time(self.streams[s])
            for s in reads(node)
        }
        return types.pop() if len(types) == 1 else TIMESTAMP


@dataclass
class _Walk:
    """The traversal of one query: builds its stages."""

    driver: Driver
    alone: str | None
    birth: int | None
    #: What joins may do with constraints.
    mode: ConstraintMode
    stages: list[Stage] = field(default_factory=list)
    frozen: bool = False

    def stream_of(self, node: Node) -> str | None:
        """The stream that an expression is, declared or published, whoever makes it."""
        return node.stream if isinstance(node, Read) else self.driver.published_names.get(node)

    @property
    def constraints(self) -> tuple[ConstraintMode, tuple[Constraint, ...]]:
        """What the joins of this query may do, and all that is declared, of whatever streams."""
        return self.mode, self.driver.declared

    @property
    def constrains_at_once(self) -> bool:
        return self.driver.constrains_at_once

    def exit(self, output: Output) -> Exit:
        node = planned_form(output.node)
        schema, names = output.node.schema, columns_of(node)
        channel = self.shared_channel(node, schema.names, EXIT, ())
        return Exit(
            output.publish,
            channel.signature,
            channel.stage,
            schema,
            self.driver.time_type(output.node),
            self._bounds_outside(channel.stage),
            tuple(names[name] for name in schema.names),
        )

    def _bounds_outside(self, number: int | None) -> tuple[Bound, ...]:
        """The bounds that are asked of the results of a stage, or of one whose events it passes on."""
        while number is not None:
            stage = self.stages[number]
            if not stage.recipe.keeps_events:
                return stage.recipe.bounds_outside
            (number,) = stage.origins
        return ()

    # ---- one operator ----

    def has_rule(self, name: str) -> bool:
        return name in self.driver.rules

    @property
    def is_alone(self) -> bool:
        return self.alone is not None

    @contextmanager
    def without_members(self) -> Iterator[None]:
        """What is read here is one query's: its constants are part of what it is."""
        frozen, self.frozen = self.frozen, True
        yield
        self.frozen = frozen

    def boxes(self, join: Join) -> tuple[Clause, ...] | None:
        """What a join asks of single inputs, if it can be asked of whole streams that are held."""
        shared = any(stream in self.driver.sharable for stream in streams_of(join))
        return None if shared or not self.has_rule("s_selection_join") else boxes_of(join)

    def sharing(self, operator: Operator) -> Sharing:
        key = (operator.kind, tuple(c.signature for c in operator.inputs), operator.definition)
        sharing = Sharing((*key, operator.constants, "alone", self.alone))
        for rule in RULES:
            if rule.name in self.driver.rules and rule.condition(operator):
                sharing = rule.action(operator, sharing)
        if self.frozen and operator.constants:
            # What reads it has no members: its constants make it what it is.
            sharing = Sharing((*sharing.key, operator.constants), sharing.alone, sharing.flags)
        return sharing

    def needs_one(self, sharing: Sharing, operator: Operator) -> None:
        is_specific = sharing.alone or operator.constants in sharing.key
        if (
            is_specific
            and self.alone is None
            and (sharing.alone or has_parameter(operator.constants))
        ):
            raise NeedsOneQuery

    def add(
        self, operator: Operator, sharing: Sharing, spec: Spec, recipe: Recipe, *, membered: bool
    ) -> Channel:
        self.needs_one(sharing, operator)
        mop = _mop_of(sharing)
        output = recipe.channel(mop)
        inputs = tuple(c.signature for c in operator.inputs)
        origins = tuple(c.stage for c in operator.inputs)
        stage = Stage(mop, spec, inputs, output, recipe, origins, sharing.rules)
        number = self.add_stage(stage)
        return Channel(output, stage.shape, number if membered and not self.frozen else None)

    def add_stage(self, stage: Stage) -> int:
        self.stages.append(stage)
        return len(self.stages) - 1

    def refuse_parameters(self, part: object) -> None:
        if self.alone is None and has_parameter(part):
            raise NeedsOneQuery

    def lifted(self, expression: Expression, lifter: Lifter) -> Expression:
        """Functions over whole columns take constants as they are: these stay part of the shape."""
        if not any(is_vector(e) for e in walk(expression)):
            return lifter.lift(expression)
        if self.alone is None and any(isinstance(e, Parameter) for e in walk(expression)):
            raise NeedsOneQuery
        return expression

    # ---- the operators ----

    def channel(
        self, node: Node, needed: Iterable[str], port: str, bounds: tuple[Bound, ...]
    ) -> Channel:
        names, columns = frozenset(needed), columns_of(node)
        if isinstance(node, Project) or any(columns[name] != name for name in names):
            shown = tuple(name for name in node.schema.names if name in names)
            as_named = (
                node
                if isinstance(node, Project)
                else Project(node, plain_items(node.schema, shown))
            )
            return self.planned(as_named, Request(names, port, bounds, named=True))
        return self.shared_channel(node, names, port, bounds)

    def shared_channel(
        self, node: Node, needed: Iterable[str], port: str, bounds: tuple[Bound, ...]
    ) -> Channel:
        return self.planned(node, Request(frozenset(needed), port, bounds))

    def shared_columns(
        self, sharing: Sharing, needed: Mapping[str, Detail]
    ) -> tuple[tuple[str, Detail], ...]:
        return self.driver.columns.union(_mop_of(sharing), needed)

    def planned(self, node: Node, request: Request) -> Channel:
        if isinstance(node, Read):
            return self._read(node)
        return REGISTRY.plan_of(type(node))(self, node, request)

    def planned_rows(self, rows: RowPlanning, relation: Relation, request: RowsRequest) -> Channel:
        return REGISTRY.plan_of(type(relation))(rows, relation, request)

    def form(self, type_: type, walk: Any, asked: Any, request: Any) -> Channel | None:
        for form in REGISTRY.forms_of(type_):
            found = form(walk, asked, request)
            if found is not None:
                return found
        return None

    def is_composite(self, node: Node | Relation) -> bool:
        return type(node) in REGISTRY.composites

    def _read(self, node: Read) -> Channel:
        published = self.driver.published.get(node.stream)
        if published is not None:
            return published.channel
        shape = self.driver.shapes[node.stream]
        together = self.driver.sharable.get(node.stream)
        if together is None or self.frozen:
            return Channel(source_channel(node.stream), shape)
        read = tuple(stream for stream in together if stream in self.driver.shapes)
        inputs = tuple(source_channel(stream) for stream in read)
        mop = f"channel:{'|'.join(together)}"
        spec, recipe = EncodeSpec(shape, read), StreamRecipe(node.stream)
        none = tuple(None for _ in inputs)
        return Channel(mop, shape, self.add_stage(Stage(mop, spec, inputs, mop, recipe, none)))


def _mop_of(sharing: Sharing) -> str:
    return signature(sharing.key, tuple(sorted(sharing.flags.items())))


def _watch(walk: _Walk, nodes: SequenceOf[Node]) -> None:
    """Have what is declared of the streams of a query watched."""
    use = REGISTRY.constraints
    if use is not None:
        use.watch(walk, nodes)
    elif any(_joins(node) for node in nodes):
        raise REGISTRY.missing("declared constraints of streams that are joined")


def _joins(node: Node) -> bool:
    streams = (part for part in walk_nodes(node) if isinstance(part, ToStream))
    return any(isinstance(p, Join) for s in streams for p in walk_rows(s.relation))


def depends_on_birth(outputs: SequenceOf[Output]) -> bool:
    """Whether a query's operators, and not only its results, depend on when it came."""
    return any(_depends_on_birth(node) for o in outputs for node in walk_nodes(o.node))


def _depends_on_birth(node: Node) -> bool:
    if isinstance(node, Extension):
        return node.depends_on_birth
    return isinstance(node, SameTime | ToStream)


def _shown_time(stream: Stream) -> pa.DataType:
    type_ = stream.time_type
    return type_ if pa.types.is_timestamp(type_) else TIMESTAMP
