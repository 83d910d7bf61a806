"""The driver: walks a query's expression, asks the rules, and gives the route through the plan.

Rules only say with whom an operator shares an m-op; the driver owns the traversal, decides which
attributes each operator needs, and names what the rules made. Operators are taken from the
streams upwards, so that a rule sees inputs that have been shared already: that is how prefixes
merge. m-ops read channels that exist before them, and an m-op's schema follows from its spec,
so a route is acyclic and keeps every schema whatever rules are on; `Plan` checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as SequenceOf
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from braid.algebra.constraint_modes import safe_mode
from braid.algebra.constraints import Constraint, ConstraintMode
from braid.algebra.documents import Documents
from braid.algebra.expressions import Expression, Parameter, Ref, Source, refs, transform, walk
from braid.algebra.functions import is_vector
from braid.algebra.nodes import (
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
    reads,
    walk_nodes,
)
from braid.algebra.queries import Output
from braid.algebra.relations import Join, ToStream
from braid.algebra.schema import TICKS
from braid.algebra.streams import Stream
from braid.algebra.types import TIMESTAMP
from braid.operators.constraint_join.declared_spec import DeclaredWatchSpec
from braid.operators.constraint_join.planning import joins_below
from braid.operators.constraint_join.watch_planning import watched
from braid.operators.documents.planning import documents
from braid.operators.pattern.planning import Parts, bounds_of, emitted, needed_aggregates, parts_of
from braid.operators.pattern.spec import Key, StepRecipe, StepSpec
from braid.operators.project.spec import ProjectRecipe, ProjectSpec
from braid.operators.select.spec import SelectionSpec, SelectRecipe
from braid.operators.stream.spec import EncodeSpec, SameTimeSpec, StreamRecipe, UnionSpec
from braid.optimizer.relations import Relations
from braid.optimizer.rules import RULES
from braid.plan.boxes import boxes_of, streams_of
from braid.plan.lower import lower
from braid.plan.plan import source_channel
from braid.plan.predicate_pushdown import rearrange
from braid.plan.predicates import ALWAYS, Clause, Lifter, Predicate, normalise
from braid.plan.routes import Bound, Exit, PlainRecipe, Recipe, Route, Stage
from braid.plan.sharing import (
    ITERATE,
    PROJECT,
    SAME_TIME,
    SELECT,
    SEQUENCE,
    UNION,
    WATCH,
    Channel,
    Operator,
    Sharing,
    signature,
)
from braid.plan.specs import Shape, Spec

#: The port of what comes out of the plan.
EXIT = "exit"

#: Output attribute and the attribute of the operator that it shows.
Wanted = tuple[tuple[str, str], ...]


def shares_channels(rules: frozenset[str]) -> bool:
    """Whether sharable streams are put together: without these rules nobody gains from it."""
    return not rules.isdisjoint({"c_seq", "c_mu", "c_sigma", "c_pi"})


class NeedsOneQuery(Exception):
    """With these rules the m-ops of a query depend on its constants: plan it by itself."""


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
    #: By what makes them: the names of published streams that readers do not read as they are.
    made: dict[Node, str] = field(default_factory=dict)

    def may_use_constraints(
        self, outputs: SequenceOf[Output], mode: ConstraintMode | None = None
    ) -> bool:
        """Whether a query has a join that uses constraints if it is planned by itself."""
        if "k_join" not in self.rules or (mode or self.mode) is ConstraintMode.OFF:
            return False
        return any(joins_below(output.node, self.mode) for output in outputs)

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
            walk.watch([output.node for output in outputs])
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
    """One query on its way through the rules."""

    driver: Driver
    alone: str | None
    birth: int | None
    #: What joins may do with constraints.
    mode: ConstraintMode
    stages: list[Stage] = field(default_factory=list)
    frozen: bool = False

    def stream_of(self, node: Node) -> str | None:
        """The stream that an expression is, declared or published, whoever makes it."""
        return node.stream if isinstance(node, Read) else self.driver.made.get(node)

    @property
    def constraints(self) -> tuple[ConstraintMode, tuple[Constraint, ...]]:
        """What the joins of this query may do, and all that is declared, of whatever streams."""
        return self.mode, self.driver.declared

    def exit(self, output: Output) -> Exit:
        node = rearrange(lower(output.node))
        channel = self.channel(node, output.node.schema.names, EXIT, ())
        bounds: tuple[Bound, ...] = ()
        if channel.stage is not None:
            recipe = self.stages[channel.stage].recipe
            if isinstance(recipe, StepRecipe) and recipe.bounded_outside:
                bounds = recipe.bounds
        return Exit(
            output.publish,
            channel.signature,
            channel.stage,
            output.node.schema,
            self.driver.time_type(output.node),
            bounds,
        )

    def watch(self, nodes: SequenceOf[Node]) -> None:
        """Have what was declared of joined streams watched there."""
        for constraint, streams in watched(nodes, self.driver.declared, self.stream_of).items():
            names = (constraint.attributes, constraint.target_attributes)
            with self.without_members():
                channels = [
                    self.channel(rearrange(lower(node)), asked, WATCH, ())
                    for node, asked in zip(streams, names, strict=False)
                ]
            inputs = tuple(channel.signature for channel in channels)
            spec = DeclaredWatchSpec(tuple(c.shape for c in channels), constraint)
            mop = signature((WATCH, constraint, inputs))
            none = tuple(None for _ in inputs)
            self.stages.append(Stage(mop, spec, inputs, mop, PlainRecipe(), none))

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
        told = sharing.alone or operator.constants in sharing.key
        if told and self.alone is None and (sharing.alone or _has_parameter(operator.constants)):
            raise NeedsOneQuery

    def add(
        self, operator: Operator, sharing: Sharing, spec: Spec, recipe: Recipe, *, membered: bool
    ) -> Channel:
        self.needs_one(sharing, operator)
        mop = signature(sharing.key, tuple(sorted(sharing.flags.items())))
        output = recipe.channel(mop)
        inputs = tuple(c.signature for c in operator.inputs)
        origins = tuple(c.stage for c in operator.inputs)
        stage = Stage(mop, spec, inputs, output, recipe, origins, sharing.rules)
        self.stages.append(stage)
        number = len(self.stages) - 1
        return Channel(output, stage.shape, number if membered and not self.frozen else None)

    # ---- the operators ----

    def channel(
        self, node: Node, needed: Iterable[str], port: str, bounds: tuple[Bound, ...]
    ) -> Channel:
        """The channel of an expression, with at least the needed attributes.

        `port`: who reads it. `bounds`: how long an event of it may last to be of use.
        """
        wanted = frozenset(needed)
        match node:
            case Read():
                return self._read(node)
            case Select(input=Sequence() | Iterate() as pattern, predicate=predicate):
                picked = _picked(node.schema.names, wanted)
                return self._pattern(pattern, picked, normalise(predicate), predicate, port, bounds)
            case Select():
                return self._select(node, wanted, port, bounds)
            case Project():
                return self._project(node, wanted, port, bounds)
            case Union():
                return self._union(node, wanted, bounds)
            case Sequence() | Iterate():
                picked = _picked(node.schema.names, wanted)
                return self._pattern(node, picked, ALWAYS, None, port, bounds)
            case SameTime():
                return self._same_time(node)
            case Documents():
                return documents(self, node, wanted)
            case ToStream():
                return Relations(self).to_stream(node, wanted)

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
        self.stages.append(Stage(mop, spec, inputs, mop, recipe, none))
        return Channel(mop, shape, len(self.stages) - 1)

    def _select(
        self, node: Select, wanted: frozenset[str], port: str, bounds: tuple[Bound, ...]
    ) -> Channel:
        more = (*bounds, *bounds_of(node.predicate))
        source = self.channel(node.input, wanted | _names(node.predicate), "select", more)
        return self.selected(source, normalise(node.predicate), port)

    def selected(self, source: Channel, predicate: Predicate, port: str) -> Channel:
        operator = Operator(SELECT, (source,), (), (predicate,))
        sharing = self.sharing(operator)
        if self.frozen or sharing.alone:
            port = signature((port, predicate))
        spec = SelectionSpec(source.shape, source.membered, sharing.flags.get("indexed", False))
        recipe = SelectRecipe(port, predicate)
        return self.add(operator, sharing, spec, recipe, membered=True)

    def _project(
        self, node: Project, wanted: frozenset[str], port: str, bounds: tuple[Bound, ...]
    ) -> Channel:
        items = tuple(item for item in node.items if item[0] in wanted)
        below = node.input
        inner = below.input if isinstance(below, Select) else below
        if isinstance(inner, Sequence | Iterate) and all(isinstance(e, Ref) for _, e in items):
            picked = tuple((name, e.name) for name, e in items if isinstance(e, Ref))
            predicate = below.predicate if isinstance(below, Select) else None
            return self._picked(inner, picked, predicate, port, bounds)
        lifter = Lifter()
        lifted = tuple((name, self.lifted(e, lifter)) for name, e in items)
        asked = {n for _, e in items for n in _names(e)}
        source = self.channel(below, asked, signature((PROJECT, lifted)), bounds)
        return self.projected(source, lifted, tuple(lifter.constants))

    def lifted(self, expression: Expression, lifter: Lifter) -> Expression:
        """Functions over whole columns take constants as they are: these stay part of the shape."""
        if not any(is_vector(e) for e in walk(expression)):
            return lifter.lift(expression)
        if self.alone is None and any(isinstance(e, Parameter) for e in walk(expression)):
            raise NeedsOneQuery
        return expression

    def projected(
        self, source: Channel, items: tuple[tuple[str, Expression], ...], constants: tuple[Any, ...]
    ) -> Channel:
        membered = source.membered or bool(constants)
        operator = Operator(PROJECT, (source,), items, constants)
        sharing = self.sharing(operator)
        spec = ProjectSpec(source.shape, items, source.membered)
        return self.add(operator, sharing, spec, ProjectRecipe(constants), membered=membered)

    def _picked(
        self,
        node: Sequence | Iterate,
        picked: Wanted,
        predicate: Expression | None,
        port: str,
        bounds: tuple[Bound, ...],
    ) -> Channel:
        """A pattern whose output is only picked and renamed; a selection of it sees all it asks."""
        if predicate is None:
            return self._pattern(node, picked, ALWAYS, None, port, bounds)
        names = {attribute: name for name, attribute in picked}
        extra = tuple((f"__f{i}", a) for i, a in enumerate(sorted(_names(predicate) - set(names))))
        shown = names | {attribute: name for name, attribute in extra}
        forward = normalise(_renamed(predicate, shown))
        return self._pattern(node, (*picked, *extra), forward, predicate, port, bounds)

    def _union(self, node: Union, wanted: frozenset[str], bounds: tuple[Bound, ...]) -> Channel:
        names = tuple(n for n in node.schema.names if n in wanted)
        sides = tuple(self._exactly(side, names, i, bounds) for i, side in enumerate(node.inputs))
        membered = any(side.membered for side in sides)
        operator = Operator(UNION, sides, (names,), ())
        sharing = self.sharing(operator)
        spec = UnionSpec(sides[0].shape, membered)
        return self.add(operator, sharing, spec, PlainRecipe(), membered=membered)

    def _exactly(
        self, node: Node, names: tuple[str, ...], side: int, bounds: tuple[Bound, ...]
    ) -> Channel:
        """A channel with just these attributes in this order."""
        source = self.channel(node, names, f"union {side} {names}", bounds)
        if source.shape.schema.names == names:
            return source
        items = tuple((n, Ref(Source.INPUT, n, node.schema.type_of(n))) for n in names)
        return self.projected(source, items, ())

    def _pattern(
        self,
        node: Sequence | Iterate,
        picked: Wanted,
        forward: Predicate,
        selection: Expression | None,
        reader: str,
        bounds: tuple[Bound, ...],
    ) -> Channel:
        asked: frozenset[str] = frozenset() if selection is None else _names(selection)
        hidden = asked.difference([attribute for _, attribute in picked])
        if hidden:
            picked = (*picked, *_picked(node.schema.names, hidden))
        emit = emitted(node, picked)
        shown = {source for _, source in emit}
        aggregates = needed_aggregates(node, shown)
        own = () if selection is None else bounds_of(selection)
        rules = self.driver.rules
        parts = parts_of(
            node, aggregates, (*bounds, *own), "ai_index" in rules, "an_index" in rules
        )
        first, second = _needed(emit, parts.keys, parts.expressions)
        second |= {t.key.name for t in parts.tests if t.key.name is not None}
        definition = (parts.keys, parts.shape, emit)
        kind = ITERATE if isinstance(node, Iterate) else SEQUENCE
        port = signature((kind, definition, 2))
        later = self.channel(
            node.second, second & set(node.second.schema.names), port, parts.bounds
        )
        port = signature((kind, definition, later.signature))
        earlier = self.channel(node.first, first & set(node.first.schema.names), port, parts.bounds)
        sides = (earlier, later)
        outside = reader == EXIT and bool(parts.bounds) and not self.frozen
        return self._step(kind, sides, definition, parts, emit, forward, outside)

    def _step(
        self,
        kind: str,
        sides: tuple[Channel, Channel],
        definition: tuple[Any, ...],
        parts: Parts,
        emit: Wanted,
        forward: Predicate,
        outside: bool,
    ) -> Channel:
        # Bounds and the forward selection are not part of the state: members that differ in them
        # may share instances.
        constants: tuple[Any, ...] = (parts.tests, parts.constants)
        if self.frozen:
            constants = (*constants, parts.bounds, forward)
        operator = Operator(kind, sides, definition, constants)
        sharing = self.sharing(operator)
        spec = StepSpec(
            sides[0].shape,
            sides[1].shape,
            parts.keys,
            parts.residual,
            parts.rebind,
            parts.aggregates,
            emit,
            sides[0].membered,
            sides[1].membered,
            merged=sharing.flags.get("merged", False),
            channels=sharing.flags.get("channels", False),
            static_index="an_index" in self.driver.rules,
            forward_index="fr_index" in self.driver.rules,
            alternatives=parts.alternatives,
        )
        recipe = StepRecipe(parts.tests, parts.constants, parts.bounds, forward, outside)
        # Always of members: others of this shape may have bounds or go on with a selection.
        return self.add(operator, sharing, spec, recipe, membered=True)

    def _same_time(self, node: SameTime) -> Channel:
        order = tuple(n for n in node.input.schema.names if not n.startswith("__v"))
        needed = _names(*(arg for a in node.aggregates for arg in a.args))
        if any(a.function in ("max_by", "min_by") for a in node.aggregates):
            needed |= set(order)
        else:
            order = ()
        if self.alone is None and _parameters_below(node):
            raise NeedsOneQuery  # it merges events: those of different members must not meet
        frozen, self.frozen = self.frozen, True
        source = self.channel(node.input, needed, "same time", ())
        self.frozen = frozen
        operator = Operator(SAME_TIME, (source,), (node.aggregates, order, self.birth), ())
        sharing = self.sharing(operator)
        spec = SameTimeSpec(source.shape, node.aggregates, order, self.birth)
        return self.add(operator, sharing, spec, PlainRecipe(), membered=False)


@lru_cache(4096)
def _picked(names: tuple[str, ...], wanted: frozenset[str]) -> Wanted:
    return tuple((n, n) for n in names if n in wanted)


@lru_cache(4096)
def _needed(
    emit: Wanted, keys: tuple[Key, ...], expressions: tuple[Expression, ...]
) -> tuple[frozenset[str], frozenset[str]]:
    """What a step asks of its first and of its second input, tests left aside."""
    first = {s[2:] for _, s in emit if s.startswith("f:")}
    first |= {k.instance[2:] for k in keys}
    second = {s[2:] for _, s in emit if s.startswith(("e:", "l:"))}
    second |= {k.event for k in keys}
    second |= {k.instance[2:] for k in keys if k.instance.startswith("l:")}
    return (
        _names(*expressions, sources=(Source.FIRST, Source.LAST)) | first,
        _names(*expressions, sources=(Source.SECOND, Source.LAST)) | second,
    )


def depends_on_birth(outputs: SequenceOf[Output]) -> bool:
    """Whether a query's operators, and not only its results, depend on when it came."""
    return any(isinstance(n, SameTime | ToStream) for o in outputs for n in walk_nodes(o.node))


def _has_parameter(constants: object) -> bool:
    return "Parameter(" in repr(constants)


def _parameters_below(node: Node) -> bool:
    return _has_parameter(node)


def _shown_time(stream: Stream) -> pa.DataType:
    type_ = stream.time_type
    return type_ if pa.types.is_timestamp(type_) else TIMESTAMP


@lru_cache(1 << 16)
def _names(
    *expressions: Expression, sources: tuple[Source, ...] = (Source.INPUT,)
) -> frozenset[str]:
    return frozenset(r.name for e in expressions for r in refs(e) if r.source in sources)


def _renamed(predicate: Expression, names: Mapping[str, str]) -> Expression:
    def change(part: Expression) -> Expression | None:
        return Ref(part.source, names[part.name], part.type) if isinstance(part, Ref) else None

    return transform(predicate, change)
