"""The cache of frames and fragments, bound and lifted.

A part is bound like a whole text, and cached for texts that differ from it only in constants
(`skeletons.py`). For each query that contains the part, its parameters are renumbered and its
constants relocated (`assembly.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from braid.algebra.bounds import longest
from braid.algebra.documents import Documents
from braid.algebra.expressions import Call, Expression, Literal, Parameter, is_true, transform, walk
from braid.algebra.functions import UDF_PREFIX
from braid.algebra.nodes import Read, walk_nodes
from braid.algebra.relations import ToStream
from braid.algebra.templates import Output, map_expressions
from braid.algebra.types import BOOLEAN
from braid.algebra.user_functions import Function
from braid.lang.bind.binder import Binder
from braid.lang.bind.constant_traces import Trace
from braid.lang.bind.constants import Constants
from braid.lang.bind.dependencies import dependencies
from braid.lang.bind.lookups import Sources, lookup_in
from braid.lang.bind.scopes import Bound, Scope
from braid.lang.bind.user_functions import Functions
from braid.lang.bind.warnings import Warnings
from braid.lang.parse import syntax
from braid.lang.parse.parser import depth_of, parse, parse_expression
from braid.lang.parse.problems import At, Problem, Problems
from braid.lang.parse.tokens import pieces
from braid.lang.templates.constant_replay import Misfit, Replay
from braid.lang.templates.fragments import HOLE, NAME, written
from braid.lang.templates.lifting import (
    Found,
    Lifter,
    Outputs,
    Places,
    expressions_of,
    plain,
    untraced,
)

if TYPE_CHECKING:
    from braid.lang.catalog.catalog import Catalog

#: The most texts that differ in pinned constants, and the most variants of one text, in the cache.
_MOST, _WAYS = 10_000, 8

Named = tuple[tuple[str, Function], ...]


class Variant:
    """One way in which the texts of a part were bound: how constants become its parameters.

    Places of constants and indexes of parameters count within the part.
    """

    def __init__(self, found: Found, functions: Named) -> None:
        self.types = found.types
        self.pinned = found.pinned
        self.starts = tuple([way.places[0] for way in found.ways])
        self._found = found
        self._functions = functions
        self._replays, self._guards = self.placed(None)
        self._placed: dict[tuple[int, ...], tuple[tuple[Replay, ...], tuple[Replay, ...]]] = {}

    def holds(self, catalog: Catalog) -> bool:
        """Whether the names still have the same meaning."""
        return all(catalog.functions.get(name) is f for name, f in self._functions)

    @property
    def functions(self) -> Named:
        return self._functions

    def values(self, texts: Sequence[str]) -> tuple[Any, ...] | None:
        """The parameters' values from the constants of a text; None if a constant does not fit."""
        try:
            for guard in self._guards:
                guard(texts)
            return tuple([read(texts) for read in self._replays])
        except Misfit:
            return None

    def placed(
        self, places: tuple[int, ...] | None
    ) -> tuple[tuple[Replay, ...], tuple[Replay, ...]]:
        """The readings and checks of constants, for a text that has those of this part at these
        places."""
        known = None if places is None else self._placed.get(places)
        if known is None:
            ways, _, guards, _, _ = self._found
            known = (
                tuple([way.replay(places) for way in ways]),
                tuple([way.replay(places) for way in guards]),
            )
            if places is not None:
                self._placed[places] = known
        return known


class BoundFragment(Variant):
    """A bound predicate. `example` has its first constants; what it shows holds for all constants."""

    def __init__(
        self, found: Found, functions: Named, predicate: Expression, example: Expression
    ) -> None:
        super().__init__(found, functions)
        self.example = example
        #: Whether it bounds the duration of a result, and whether it is always true.
        self.says = (longest(example) is not None, is_true(example))
        self._predicate = predicate
        self._numbered: dict[tuple[int, ...], Expression] = {}

    def numbered(self, numbers: tuple[int, ...]) -> Expression:
        """The fragment with these parameters: the same object each time, so that caches for it
        work."""
        known = self._numbered.get(numbers)
        if known is None:
            known = self._numbered[numbers] = transform(self._predicate, _renumber(numbers))
        return known


class BoundFrame(Variant):
    """A bound frame. `outputs` have holes in place of predicates; `scopes` has the meaning of names
    in them."""

    def __init__(
        self,
        found: Found,
        functions: Named,
        outputs: Outputs,
        scopes: Sequence[Scope],
        sources: tuple[tuple[str, Read], ...],
    ) -> None:
        super().__init__(found, functions)
        self.outputs = outputs
        self.sources = sources
        #: The bound fragments of each hole, by their keys.
        self.fragments: tuple[dict[str, Fragments], ...] = tuple({} for _ in scopes)
        #: The warnings of unbounded state, by the bounds in its fragments.
        self.endless: dict[tuple[tuple[bool, bool], ...], Warnings] = {}
        self._scopes = scopes

    def holds(self, catalog: Catalog) -> bool:
        for name, read in self.sources:
            if catalog.source(name) is not read:
                return False
        return super().holds(catalog)

    def fragment(self, hole: int, key: str) -> Fragments:
        known = self.fragments[hole].get(key)
        if known is None:
            if len(self.fragments[hole]) >= _MOST:
                self.fragments[hole].clear()
            known = self.fragments[hole][key] = Fragments(key, self._scopes[hole])
        return known

    def numbered(self, numbers: tuple[int, ...]) -> Outputs:
        if not self.types:
            return self.outputs
        change = _renumber(numbers)
        return changed(self.outputs, lambda e: transform(e, change))


def _renumber(numbers: tuple[int, ...]) -> Callable[[Expression], Expression | None]:
    def change(part: Expression) -> Expression | None:
        if isinstance(part, Parameter):
            return Parameter(numbers[part.index], part.type)
        return None

    return change


def changed(outputs: Outputs, change: Callable[[Expression], Expression]) -> Outputs:
    return tuple([Output(map_expressions(o.node, change), o.publish) for o in outputs])


_V = TypeVar("_V", bound=Variant)


@dataclass
class Part(Generic[_V]):
    """All texts of one key, which differ only in constants.

    `pinned` are the constants that select the variant. `periods` are those before a word that may
    be a unit of time. `depth` is the depth of its nesting.
    """

    key: str
    pinned: tuple[int, ...] = ()
    periods: tuple[int, ...] = ()
    depth: int = 0
    variants: dict[tuple[str, ...], list[_V]] = field(default_factory=dict)

    def find(self, texts: Sequence[str], catalog: Catalog) -> tuple[_V, tuple[Any, ...]] | None:
        for variant in self.variants.get(self._chosen(texts), ()):
            if variant.holds(catalog):
                values = variant.values(texts)
                if values is not None:
                    return variant, values
        return None

    def _chosen(self, texts: Sequence[str]) -> tuple[str, ...]:
        return tuple([texts[place] for place in self.pinned])

    def know(self, texts: Sequence[str], variant: _V, catalog: Catalog) -> None:
        pinned = tuple(sorted(variant.pinned))
        if pinned != self.pinned or len(self.variants) >= _MOST:
            self.pinned = pinned
            self.variants.clear()
        known = self.variants.setdefault(self._chosen(texts), [])
        known[:] = [v for v in known if v.holds(catalog)][-_WAYS:]
        known.append(variant)


class Fragments(Part[BoundFragment]):
    """A fragment at one place of a frame."""

    def __init__(self, key: str, scope: Scope) -> None:
        super().__init__(key)
        self._scope = scope

    def bind(self, texts: Sequence[str], catalog: Catalog) -> None:
        """Bind it with these constants, unless it has an error."""
        found = pieces(written(self.key, texts))
        if len(found) != 1 or found[0].problems:
            return
        tokens = found[0].tokens
        places, node = Places(tokens), parse_expression(tokens)
        if node is None or places.texts != list(texts):
            return
        self.periods, (self.depth, _) = tuple(places.periods), depth_of(node)
        constants = Constants()
        bound = Binder(_nowhere, catalog.functions, constants).predicate(self._scope, node)
        example = untraced(bound)
        lifter = Lifter(places, self.pinned)
        lifter.look_at([bound])
        predicate = lifter.change(bound)
        lifted = lifter.found(constants.traces)
        functions = tuple(functions_in([bound], catalog.functions))
        if lifted is None or _filled(predicate, lifted) != example:
            lifted, predicate = _nothing(places), example
        self.know(texts, BoundFragment(lifted, functions, predicate, example), catalog)


class Frame(Part[BoundFrame]):
    """`reads` and `publishes` are names of streams, without the name of the query itself."""

    reads: tuple[str, ...] = ()
    publishes: tuple[str, ...] = ()

    def bind(self, texts: Sequence[str], catalog: Catalog) -> None:
        """Bind it with these constants, unless it has an error."""
        text, holes = _with_nothing_in_it(self.key, texts)
        found = pieces(text)
        if len(found) != 1 or found[0].problems:
            return
        places, statement = Places(found[0].tokens), parse(found[0])
        if not isinstance(statement, syntax.Query) or places.texts != list(texts):
            return
        self.periods, (self.depth, _) = tuple(places.periods), depth_of(statement)
        names = dependencies(statement)
        self.reads, self.publishes = tuple(names.reads), tuple(names.publishes)
        constants = Constants()
        sources: Sources = {}
        binder = Binder(lookup_in(catalog, None, (), sources), catalog.functions, constants)
        bound = binder.query(statement)
        if any(at not in binder.predicates for at in holes) or _has_relations(bound):
            return
        streams = {name: found for name, found in sources.items() if isinstance(found, Read)}
        if len(streams) < len(sources):
            return  # a view, whose text is not here
        scopes = [binder.predicates[at][0] for at in holes]
        marks = {
            id(binder.predicates[at][1]): Hole(True, BOOLEAN, number)
            for number, at in enumerate(holes)
        }
        marked = changed(bound, lambda e: marks.get(id(e), e))
        self._know(texts, marked, constants.traces, places, scopes, streams, catalog)

    def _know(
        self,
        texts: Sequence[str],
        outputs: Outputs,
        traces: Sequence[Trace],
        places: Places,
        scopes: Sequence[Scope],
        sources: dict[str, Read],
        catalog: Catalog,
    ) -> None:
        expressions = [e for o in outputs for n in walk_nodes(o.node) for e in expressions_of(n)]
        lifter = Lifter(places, self.pinned)
        lifter.look_at(expressions)
        lifted, made = lifter.found(traces), changed(outputs, lifter.change)
        functions = tuple(functions_in(expressions, catalog.functions))
        bare = plain(outputs)
        if lifted is None or _filled_outputs(made, lifted) != bare:
            lifted, made = _nothing(places), bare
        variant = BoundFrame(lifted, functions, made, scopes, tuple(sources.items()))
        self.know(texts, variant, catalog)


def _has_relations(outputs: Outputs) -> bool:
    return any(
        isinstance(node, ToStream | Documents) for o in outputs for node in walk_nodes(o.node)
    )


@dataclass(frozen=True, eq=False)
class Hole(Literal):
    """The place of a predicate in a frame."""

    number: int


def _with_nothing_in_it(key: str, texts: Sequence[str]) -> tuple[str, list[At]]:
    """A frame with TRUE for each predicate, and the places of the predicates."""
    each = iter(texts)
    text, holes = "", []
    first, *rest = key.replace(NAME, "").split(HOLE)
    text = written(first, each)
    for part in rest:
        holes.append((len(text), len(text) + len("TRUE")))
        text += "TRUE" + written(part, each)
    return text, holes


def _nothing(places: Places) -> Found:
    """No parameters: every constant is pinned."""
    return Found((), (), (), frozenset(range(len(places.texts))), ())


def _nowhere(name: syntax.Ident) -> Bound:
    raise AssertionError("a predicate reads no stream")


def _filled(expression: Expression, lifted: Found) -> Expression:
    literals = [Literal(v, t) for v, t in zip(lifted.values, lifted.types, strict=True)]

    def fill(part: Expression) -> Expression | None:
        return literals[part.index] if isinstance(part, Parameter) else None

    return transform(expression, fill)


def _filled_outputs(outputs: Outputs, lifted: Found) -> Outputs:
    return changed(outputs, lambda e: _filled(e, lifted))


def functions_in(
    expressions: Iterable[Expression], known: Functions
) -> Iterator[tuple[str, Function]]:
    """The user functions that an expression calls."""
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, Call) and part.function.startswith(UDF_PREFIX):
                function = known.get(part.function.removeprefix(UDF_PREFIX))
                assert function is not None
                yield function.name, function


#: Errors in a part. The binder of the whole text reports them.
WRONG = (Problem, Problems, RecursionError)
