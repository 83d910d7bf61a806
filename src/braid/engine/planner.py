"""The planner: computes the route of each template once, and admits queries to the routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra import nodes as algebra
from braid.algebra.constraints import Constraint, ConstraintMode
from braid.algebra.documents import Documents
from braid.algebra.expressions import Expression, refs
from braid.algebra.nodes import Extension, Iterate, Node, Project, Read, SameTime, Select, Union
from braid.algebra.relations import (
    Detection,
    DistinctRows,
    GroupRows,
    Join,
    KeepRows,
    MapRows,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    place,
)
from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.algebra.templates import Members, Output, Template
from braid.algebra.types import Kind, kind_of
from braid.engine.bulk_registration import PendingQueries, can_defer
from braid.engine.member_constants import parts_of, taken, templates_of
from braid.engine.query_registry import ExitPoint
from braid.engine.rehearsal import Admits, Rehearsal
from braid.operators.core.subscriber_index import ALWAYS
from braid.operators.core.values import Words
from braid.operators.registry import REGISTRY
from braid.optimizer.driver import Driver, Published, depends_on_birth
from braid.plan.aggregate_constants import AggregateConstants
from braid.plan.boxes import boxes_of, columns_of
from braid.plan.channel_specs import PublishSpec
from braid.plan.plan import Mop
from braid.plan.planning import NeedsOneQuery
from braid.plan.routes import PlainRecipe, Route, Stage
from braid.plan.sharing import Channel
from braid.plan.specs import Shape


def inlined(node: Node, known: Mapping[str, Node]) -> Node:
    """The expression with every read of a known stream replaced by its definition."""
    if not known or known.keys().isdisjoint(algebra.reads(node)):
        return node
    match node:
        case Read():
            return known.get(node.stream, node)
        case Select() | Project() | SameTime():
            return replace(node, input=inlined(node.input, known))
        case Union() | Iterate() | algebra.Sequence():
            first, second = inlined(node.first, known), inlined(node.second, known)
            return replace(node, first=first, second=second)
        case ToStream() | Documents() | Extension():
            return node.over(tuple(inlined(input_, known) for input_ in node.inputs))


def read_shapes(
    groups: Iterable[Members],
    streams: Mapping[str, Stream],
    declared: tuple[Constraint, ...] = (),
) -> dict[str, Shape]:
    """What some query may ask of each stream that any reads: every attribute that is named, by it or
    by what was declared of streams that it joins."""
    used: dict[str, set[str]] = {}
    for members in groups:
        templates = templates_of(members.template)
        nodes = [output.node for template in templates for output in template.outputs]
        for node in nodes:
            _collect_columns(node, set(node.schema.names), used)
        for stream, names in _constraint_columns(nodes, declared):
            used.setdefault(stream, set()).update(names)
    return {
        name: Shape(Schema(tuple(a for a in streams[name].schema if a.name in used[name])))
        for name in used
        if name in streams
    }


def _constraint_columns(
    nodes: Sequence[Node], declared: tuple[Constraint, ...]
) -> Iterable[tuple[str, tuple[str, ...]]]:
    use = REGISTRY.constraints
    return use.reads(nodes, declared) if declared and use is not None else ()


def _collect_columns(node: Node, wanted: set[str], used: dict[str, set[str]]) -> None:
    """Collect the attributes that an expression reads from its streams."""
    match node:
        case Read():
            used.setdefault(node.stream, set()).update(wanted)
        case Select():
            _collect_columns(node.input, wanted | _named(node.predicate), used)
        case Project():
            asked = [e for name, e in node.items if name in wanted]
            _collect_columns(node.input, _named(*asked), used)
        case SameTime():
            names = _named(*(arg for a in node.aggregates for arg in a.args))
            if any(a.function in ("max_by", "min_by") for a in node.aggregates):
                names |= set(node.input.schema.names)
            _collect_columns(node.input, names, used)
        case Union():
            _collect_columns(node.first, wanted, used)
            _collect_columns(node.second, wanted, used)
        case algebra.Sequence():
            named = _named(node.predicate)
            first = zip(node.first.schema.names, node.names, strict=False)
            second = zip(
                node.second.schema.names, node.names[len(node.first.schema) :], strict=True
            )
            _collect_columns(node.first, named | {a for a, n in first if n in wanted}, used)
            _collect_columns(node.second, named | {a for a, n in second if n in wanted}, used)
        case Iterate():
            named = _named(node.predicate, node.rebind, *(e for _, e in node.aggregates))
            plain = {name.removesuffix("_1") for name in wanted}
            _collect_columns(node.first, named | wanted | plain, used)
            _collect_columns(node.second, named | wanted, used)
        case Documents():
            for source in node.sources:
                _collect_columns(source, set(source.schema.names), used)
        case Extension():
            for source, names in zip(node.inputs, node.asked(wanted), strict=True):
                _collect_columns(source, names, used)
        case ToStream():
            # Istream and Dstream compare whole rows.
            names = set(node.schema.names)
            shown = names & wanted if node.kind is StreamKind.RSTREAM else names
            _collect_relation_columns(node.relation, shown, used)


def _collect_relation_columns(
    relation: Relation, wanted: set[str], used: dict[str, set[str]]
) -> None:
    """The same for the columns of a relation."""
    match relation:
        case Window(kind=kind, input=stream):
            # The order of events of one instant depends on all their values.
            named = set(stream.schema.names) if kind is WindowKind.ROWS else wanted
            _collect_columns(stream, named, used)
        case KeepRows():
            _collect_relation_columns(relation.input, wanted | _named(relation.predicate), used)
        case MapRows():
            asked = [e for name, e in relation.items if name in wanted]
            _collect_relation_columns(relation.input, _named(*asked), used)
        case Join():
            places = [place(name) for name in wanted | _named(relation.predicate)]
            whole = boxes_of(relation) is not None
            for number, below in enumerate(relation.inputs):
                held = set(columns_of(below)) if whole else set()
                _collect_relation_columns(
                    below, held | {name for of, name in places if of == number}, used
                )
        case GroupRows():
            args = (arg for a in relation.aggregates for arg in a.args)
            _collect_relation_columns(relation.input, _named(*relation.keys, *args), used)
        case DistinctRows():
            _collect_relation_columns(relation.input, set(relation.schema.names), used)
        case Detection(join=join):
            _collect_relation_columns(join, set(), used)


def _named(*expressions: Expression) -> set[str]:
    return {ref.name for e in expressions for ref in refs(e)}


#: A template, since when it sees events, and the versions of the streams that it reads.
_RouteKey = tuple[Template, int | None, tuple[int, ...]]
#: Up to this many queries of a group are checked one by one for a dedicated join.
_MAX_INSPECTED = 16


class Planner:
    """Keeps the plan of one executor up to date."""

    def __init__(
        self,
        executor: Admits,
        driver: Driver,
        saved: frozenset[str] = frozenset(),
        dedicated_joins: Iterable[str] = (),
    ) -> None:
        """`saved`: the m-ops of dedicated joins in the saved state. `dedicated_joins`: the queries
        that had them."""
        self._saved = saved
        #: Whether the added queries have no saved state: only these can get a dedicated join.
        self.fresh = True
        #: Queries that don't share their join, and the templates of these.
        self.dedicated_joins = set(dedicated_joins)
        self._dedicated_templates: set[Template] = set()
        #: How many queries join the same streams, or streams that are sharable with these: several
        #: queries share their joins.
        self._joining: Counter[frozenset[str]] = Counter()
        self._executor = executor
        self._driver = driver
        assert isinstance(driver.published, dict)
        self._published: dict[str, Published] = driver.published
        self._routes: dict[_RouteKey, Route | None] = {}
        self._aggregate_constants = AggregateConstants()
        self._is_rehearsing = False
        #: The routes of queries that are planned by themselves and were rehearsed.
        self._own_routes: dict[tuple[tuple[Output, ...], str, int | None], Route] = {}
        #: The routes that report why declared constraints are not used.
        self._routes_with_reasons: dict[_RouteKey, Route] = {}
        self._inlined: dict[str, Node] = {}
        self._versions: dict[str, int] = {}
        self._exits: dict[str, list[ExitPoint]] = {}
        #: Queries that wait for bulk registration; None outside `add_all`.
        self._pending: list[PendingQueries] | None = None

    def rehearse(
        self,
        first: Sequence[tuple[Members, Words | None, bool]],
        later: Sequence[tuple[Members, Words | None, bool]],
    ) -> None:
        """Find out which columns m-ops write, if these queries are added next: the first together, and
        later the others, which have no saved state."""
        driver = self._driver
        rehearsing = replace(
            driver,
            published=dict(driver.published),
            published_names=dict(driver.published_names),
        )
        planner = Planner(Rehearsal(self._executor.plan), rehearsing, self._saved)
        planner.fresh = self.fresh
        planner.dedicated_joins = set(self.dedicated_joins)
        planner._dedicated_templates = set(self._dedicated_templates)
        planner._joining = self._joining.copy()
        planner._inlined, planner._versions = dict(self._inlined), dict(self._versions)
        planner._exits = {name: list(points) for name, points in self._exits.items()}
        # The same objects: what is computed for the rehearsal is not computed again.
        planner._routes, planner._own_routes = self._routes, self._own_routes
        planner._is_rehearsing = True
        planner._routes_with_reasons = self._routes_with_reasons
        planner._aggregate_constants = self._aggregate_constants
        planner.expect(members for members, _, _ in first)
        planner.add_all(first)
        planner.fresh = True
        for members, births, single in later:
            planner.expect([members])
            planner.add(members, births, single=single)

    def is_current(self, route: Route) -> bool:
        """Whether the m-ops of a route write all columns that their members need by now."""
        columns = self._driver.columns
        return all(columns.agree(s.mop, s.spec.output.schema.names) for s in route.stages)

    def add(self, members: Members, births: Words | None = None, *, single: bool = False) -> None:
        """Admit queries of one template. `single`: no other query publishes what these do."""
        for part, rows in parts_of(members):
            self._add_folded(part, None if births is None else births[rows], single=single)

    def _add_folded(self, members: Members, births: Words | None, *, single: bool) -> None:
        template = members.template
        if births is not None and depends_on_birth(template.outputs):
            for birth in np.unique(births).tolist():
                rows = np.flatnonzero(births == birth)
                own = None if birth == ALWAYS else birth
                self._add(taken(members, rows), births[rows], own)
        else:
            self._add(members, births, None)
        from_the_start = births is None or bool((births == ALWAYS).all())
        for name in template.publishes:
            self._forget(name)
        if single and from_the_start and template.publishes and "inline" in self._driver.rules:
            # One that came later has no events from before: its readers see what it publishes.
            self._inline(template, members)

    def add_all(self, pending: Iterable[tuple[Members, Words | None, bool]]) -> None:
        """Admit queries of many templates, as `add` does one after the other."""
        self._pending = []
        for members, births, single in pending:
            if members.template.publishes:
                self._admit_pending()
            self.add(members, births, single=single)
        self._admit_pending()
        self._pending = None

    def _admit_pending(self) -> None:
        if self._pending:
            self._executor.admit_bulk(self._pending)
            self._pending = []

    def _forget(self, stream: str) -> None:
        """Forget the inlined definition of a stream: another query publishes it now."""
        node = self._inlined.pop(stream, None)
        if node is not None:
            self._driver.forget_published(node)
            self._versions[stream] = 1 + self._versions.get(stream, 0)

    def _inline(self, template: Template, members: Members) -> None:
        """Inline the published streams of this query into their readers."""
        if depends_on_birth(template.outputs):
            return  # a reader that is added later would have other results
        whole = Template(self._outputs(template), template.types)
        for output in whole.instantiate(members.row(0)):
            if output.publish is not None:
                self._inlined[output.publish] = output.node
                self._driver.name_published(output.node, output.publish)
                # Routes that read what was known by this name before are not these.
                self._versions[output.publish] = 1 + self._versions.get(output.publish, 0)

    def _add(self, members: Members, births: Words | None, birth: int | None) -> None:
        for template, rows in self._aggregate_constants.divided(members):
            part = replace(taken(members, rows), template=template)
            self._add_alike(part, None if births is None else births[rows], birth)

    def _add_alike(self, members: Members, births: Words | None, birth: int | None) -> None:
        template = members.template
        for name in template.reads:
            self._ensure_readable(name)
        if len(members):
            members, births = self._admit_dedicated(members, births, birth)
            if not len(members):
                return
        key = (template, birth, tuple(self._versions.get(name, 0) for name in template.reads))
        route = self._routes.get(key)
        if key not in self._routes or not (route is None or self.is_current(route)):
            route = self._route(self._outputs(template), birth, template.mode)
            self._routes[key] = route
        if route is not None and len(members):
            route = self._with_reasons(key, route, members, birth)
        if not len(members):
            if route is not None:
                self._record_exits(route, self._executor.prepare(route))
            return
        alone = np.ones(len(members), np.bool_) if route is None else _has_inexact_keys(members)
        together = np.flatnonzero(~alone)
        if route is not None and len(together):
            self._admit(route, taken(members, together), births, together)
        for row in np.flatnonzero(alone).tolist():
            self._admit_single(members, row, births, birth)

    def expect(self, groups: Iterable[Members]) -> None:
        """Announce the queries that are added next."""
        for members in groups:
            template = members.template
            if self._driver.may_use_constraints(template.outputs, template.mode):
                self._joining[self._joined(template)] += len(members)

    def _joined(self, template: Template) -> frozenset[str]:
        """What tells which queries join the same streams: one stream for all that are sharable.

        A join of each of two sharable streams, by itself, holds what belongs to both twice.
        """
        sharable = self._driver.sharable
        return frozenset(min(sharable.get(name, (name,))) for name in template.reads)

    def _admit_dedicated(
        self, members: Members, births: Words | None, birth: int | None
    ) -> tuple[Members, Words | None]:
        """Admit the queries that get a dedicated join, and return the others.

        A query gets a dedicated join if it is the only one that joins its streams when it is
        added. It keeps the join, also after a restart, when other queries are added later.
        """
        template = members.template
        known = template in self._dedicated_templates
        first = self.fresh and self._joining[self._joined(template)] == 1
        if not template.types or not (first or known or self._saved):
            return members, births
        if not self._driver.may_use_constraints(template.outputs, template.mode):
            return members, births
        alone = np.zeros(len(members), np.bool_)
        for row in self._dedicated_candidates(members):
            route = self._dedicated_route(members, row, birth)
            joins = {s.mop for s in route.stages if s.spec.for_one_query}
            there = joins & (self._saved | self._executor.plan.mops.keys())
            if joins and (first or there):
                self._admit_single(members, row, births, birth)
                self._dedicated_templates.add(template)
                self.dedicated_joins.add(members.ids[row].as_py())
                alone[row] = True
        rows = np.flatnonzero(~alone)
        return taken(members, rows), None if births is None else births[rows]

    def _with_reasons(
        self, key: _RouteKey, route: Route, members: Members, birth: int | None
    ) -> Route:
        """The route with the reasons why declared constraints are not used; computed once."""
        use = REGISTRY.constraints
        if use is None or not use.is_watched(route):
            return route
        known = self._routes_with_reasons.get(key)
        if known is None or not self.is_current(known):
            template = members.template
            own = None
            if self._driver.may_use_constraints(template.outputs, template.mode):
                own = self._dedicated_route(members, 0, birth)
            self._routes_with_reasons[key] = self._with_unused_reasons(route, own, template)
        return self._routes_with_reasons[key]

    def _with_unused_reasons(self, route: Route, own: Route | None, template: Template) -> Route:
        """The route with reasons, unless the user has turned constraints or their rule off."""
        use = REGISTRY.constraints
        if use is None or not self._driver.uses_constraints(template.mode):
            return route
        nodes = [output.node for output in self._outputs(template)]
        return use.with_reasons(
            route, own, nodes, lambda node: self._driver.published_names.get(node)
        )

    def _dedicated_candidates(self, members: Members) -> list[int]:
        """The rows to check for a dedicated join: all of a small group, else those that had one."""
        if len(members) <= _MAX_INSPECTED:
            return list(range(len(members)))
        names = pa.array(sorted(self.dedicated_joins), pa.string())
        found = pc.is_in(members.ids, value_set=names).to_numpy(zero_copy_only=False)
        return np.flatnonzero(found).tolist()

    def _dedicated_route(self, members: Members, row: int, birth: int | None) -> Route:
        template = Template(self._outputs(members.template), members.template.types)
        outputs = template.instantiate(members.row(row))
        name: str = members.ids[row].as_py()
        return self._driver.route(outputs, name, birth, members.template.mode)

    def _outputs(self, template: Template) -> tuple[Output, ...]:
        """The outputs with inlined streams replaced; a query's own streams always are."""
        known = {name: self._inlined[name] for name in template.reads if name in self._inlined}
        outputs = []
        for output in template.outputs:
            node = inlined(output.node, known)
            outputs.append(Output(node, output.publish))
            if output.publish is not None:
                known[output.publish] = node
        for output in outputs:
            for name in algebra.reads(output.node):
                self._ensure_readable(name)
        return tuple(outputs)

    def _route(
        self, outputs: Sequence[Output], birth: int | None, mode: ConstraintMode | None
    ) -> Route | None:
        try:
            return self._driver.route(outputs, birth=birth, mode=mode)
        except NeedsOneQuery:
            return None

    def _admit(self, route: Route, members: Members, births: Words | None, rows: Words) -> None:
        own = None if births is None else births[rows]
        if self._pending is not None and can_defer(route, members):
            self._pending.append(PendingQueries(route, members, own))
            return
        self._record_exits(route, self._executor.admit(route, members, own).exits)

    def _record_exits(self, route: Route, points: Sequence[ExitPoint]) -> None:
        for exit_, point in zip(route.exits, points, strict=True):
            if exit_.stream is None:
                continue
            known = [p for p in self._exits.get(exit_.stream, ()) if not p.gone]
            if all(p is not point for p in known):
                self._exits[exit_.stream] = [*known, point]
                if self._is_published(exit_.stream):
                    self._publish(exit_.stream)

    def _admit_single(
        self, members: Members, row: int, births: Words | None, birth: int | None
    ) -> None:
        template = Template(self._outputs(members.template), members.template.types)
        outputs = template.instantiate(members.row(row))
        name: str = members.ids[row].as_py()
        key = (outputs, name, birth)
        route = self._own_routes.pop(key, None)
        if route is None or not self.is_current(route):
            route = self._driver.route(outputs, name, birth, members.template.mode)
        if self._is_rehearsing:
            self._own_routes[key] = route
        route = self._with_unused_reasons(route, None, members.template)
        one = Members(Template(outputs), pa.array([name], pa.string()), ())
        self._admit(route, one, births, np.array([row]) if births is not None else np.zeros(1, int))

    # ---- published streams that are not inlined ----

    def _ensure_readable(self, stream: str) -> None:
        """Make sure that a published stream which is not inlined can be read."""
        if stream in self._inlined or self._is_published(stream):
            return
        if any(not point.gone for point in self._exits.get(stream, ())):
            self._publish(stream)

    def _is_published(self, stream: str) -> bool:
        return f"publish:{stream}" in self._executor.plan.mops

    def _publish(self, stream: str) -> None:
        points = [p for p in self._exits[stream] if not p.gone]
        inputs = tuple(point.channel for point in points)
        shape = Shape(points[0].form.schema)
        signature = f"publish:{stream}"
        spec = PublishSpec(shape, stream)
        known = self._executor.plan.mops.get(signature)
        if known is not None:
            self._executor.plan.mops[signature] = Mop(signature, spec, inputs)
            self._executor.changed()
        recipe = PlainRecipe()
        stage = Stage(signature, spec, inputs, signature, recipe, tuple(None for _ in inputs))
        self._executor.publish(stage, points)
        self._published[stream] = Published(Channel(signature, shape), points[0].time_type)


_EXACT_LIMIT = np.uint64(2**62 - 1)


def _has_inexact_keys(members: Members) -> np.ndarray:
    """Members with integers so large that their keys would not be exact."""
    wide = [
        column.to_numpy(zero_copy_only=False)
        for column, type_ in zip(members.values, members.template.types, strict=True)
        if kind_of(type_) is Kind.INTEGER and type_.bit_width == 64
    ]
    if not wide:
        return np.zeros(len(members), np.bool_)
    words = np.concatenate(wide).astype(np.int64, copy=False).view(np.uint64)
    # Those between -2^62 and 2^62 become the lower half of all words.
    return np.any((words + _EXACT_LIMIT > 2 * _EXACT_LIMIT).reshape(len(wide), -1), axis=0)
