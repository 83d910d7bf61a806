"""Skeletons: registration of queries of a known shape, without a parse.

The first query with an outline is parsed, bound and lifted into a template. The next ones take one
lookup, and the conversion of their constants. The meaning of a text depends on the meaning of its
names. So each template is cached with the streams and functions that it was bound to, and is valid
only while the catalog has exactly those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from lark import Token

from braid.algebra.constraints import ConstraintMode
from braid.algebra.expressions import Expression
from braid.algebra.nodes import Read, walk_nodes
from braid.algebra.templates import Output, Template
from braid.algebra.user_functions import Function
from braid.lang.bind.constant_traces import Trace
from braid.lang.bind.dependencies import dependencies
from braid.lang.bind.empty_ranges import Range, ranges_of, warnings_of
from braid.lang.bind.views import View, view_names
from braid.lang.bind.warnings import Warnings
from braid.lang.parse import syntax
from braid.lang.templates.assembly import Assembler
from braid.lang.templates.constant_replay import Misfit, Replay
from braid.lang.templates.fragment_cache import functions_in
from braid.lang.templates.lifting import Outputs, Places, expressions_of, lift
from braid.lang.templates.outlines import Outline
from braid.lang.templates.picked import picked, picking

if TYPE_CHECKING:
    from braid.lang.catalog.catalog import Catalog

#: The most shapes, templates, and templates of one shape in the cache.
_MOST = 50_000
#: The most variants to try for texts that differ only in constants.
_WAYS = 8
#: A longer number might be too large for a duration, which the parser reports and not the binder.
_SURELY_SHORT = 9


class Known(NamedTuple):
    """A text that needs no parse, and its warnings."""

    template: Template
    values: tuple[Any, ...]
    warnings: Warnings


@dataclass(frozen=True, slots=True)
class _Variant:
    """One way in which the texts of a shape were bound."""

    template: Template
    replays: tuple[Replay, ...]
    guards: tuple[Replay, ...]
    sources: tuple[tuple[str, Read | View], ...]
    functions: tuple[tuple[str, Function], ...]
    warnings: Warnings
    ranges: tuple[Range, ...] = ()

    def holds(self, catalog: Catalog) -> bool:
        """Whether the names still have the same meaning."""
        for name, found in self.sources:
            if (catalog.views.get(name) or catalog.source(name)) is not found:
                return False
        return all(catalog.functions.get(name) is f for name, f in self.functions)

    def values(self, texts: Sequence[str]) -> tuple[Any, ...] | None:
        try:
            for guard in self.guards:
                guard(texts)
            return tuple([read(texts) for read in self.replays])
        except Misfit:
            return None


class Shape:
    """All texts with one outline, and what is known of them before they are bound.

    `reads` and `publishes` are the names of streams, without the one that an outline leaves out.
    `pinned` are the constants that select the variant.
    """

    __slots__ = ("_periods", "pinned", "publishes", "reads", "variants")

    def __init__(
        self, reads: Iterable[str], publishes: Iterable[str], periods: Iterable[int]
    ) -> None:
        self.reads = tuple(reads)
        self.publishes = tuple(publishes)
        self.pinned: tuple[int, ...] = ()
        self.variants: dict[tuple[str, ...], list[_Variant]] = {}
        self._periods = tuple(periods)

    @staticmethod
    def of(query: syntax.AnyQuery, outline: Outline, tokens: Sequence[Token]) -> Shape:
        found = dependencies(query)
        publishes = (n for n in found.publishes if n != outline.publish)
        return Shape(found.reads, publishes, Places(tokens).periods)

    def parses(self, outline: Outline) -> bool:
        """Whether a text of this shape certainly parses: only a duration can be too long."""
        texts = outline.texts
        return all(_surely_short(texts[place]) for place in self._periods)

    def key(self, texts: Sequence[str]) -> tuple[str, ...]:
        return tuple([texts[place] for place in self.pinned])

    def know(
        self, texts: Sequence[str], variant: _Variant, pinned: Iterable[int], catalog: Catalog
    ) -> None:
        """Add a variant of the texts."""
        now = tuple(sorted(pinned))
        if now != self.pinned or len(self.variants) >= _MOST:
            self.pinned = now
            self.variants.clear()
        known = self.variants.setdefault(self.key(texts), [])
        known[:] = [v for v in known if v.holds(catalog)][-_WAYS:]
        known.append(variant)


def _surely_short(number: str) -> bool:
    return len(number) <= _SURELY_SHORT and "e" not in number and "E" not in number


#: The identity of a template: outputs, types of parameters, views, the mode of constraints.
_Key = tuple[Outputs, tuple[pa.DataType, ...], tuple[str, ...], ConstraintMode | None]


class Skeletons:
    """The cache of shapes and templates."""

    def __init__(self) -> None:
        self._shapes: dict[str, Shape] = {}
        self._assembler = Assembler()
        self._templates: dict[_Key, Template] = {}

    def shape(self, outline: Outline) -> Shape | None:
        """The shape of a text, whose dependencies are therefore known without a parse."""
        shape = self._shapes.get(outline.key)
        if shape is None:
            known = self._assembler.known(outline) if outline.mode is None else None
            if known is None:
                found = picked(outline)
                return None if found is None else self.shape(found.everything)
            shape = self._new(outline.key, Shape(*known))
        return shape if shape.parses(outline) else None

    def _new(self, key: str, shape: Shape) -> Shape:
        if len(self._shapes) >= _MOST:
            self._shapes.clear()
        self._shapes[key] = shape
        return shape

    def find(self, outline: Outline, catalog: Catalog) -> Known | None:
        """The template and the constants of a text, if a similar one was bound before."""
        shape = self._shapes.get(outline.key)
        name, texts = outline.publish, outline.texts
        if shape is not None:
            if name is not None and (name in shape.reads or name in shape.publishes):
                return None  # an error, which the binder reports
            for variant in shape.variants.get(shape.key(texts), ()):
                if not variant.holds(catalog):
                    continue
                values = variant.values(texts)
                if values is not None:
                    return _named(variant, values, name)
        return self._picked(outline, catalog) or self._assembled(outline, shape, catalog)

    def _picked(self, outline: Outline, catalog: Catalog) -> Known | None:
        """A text that shows attributes of a pattern which is known."""
        found = picked(outline)
        known = None if found is None else self.find(found.everything, catalog)
        if found is None or known is None:
            return None
        whole = known.template.base or known.template
        node = picking(whole.outputs[-1].node, found.items)
        if node is None:
            return None
        outputs = (*whole.outputs[:-1], Output(node, None))
        template = self._shared(Template(outputs, whole.types, None, whole.views, whole.mode))
        name = outline.publish
        made = template if name is None else template.publishing(name)
        return Known(made, known.values, known.warnings)

    def _assembled(self, outline: Outline, shape: Shape | None, catalog: Catalog) -> Known | None:
        """A text that is new as a whole, but consists of known parts."""
        made = self._assembler.assemble(outline, catalog) if outline.mode is None else None
        if made is None:
            return None
        if shape is None:
            shape = self._new(outline.key, Shape(*made.known))
        template = self._shared(Template(made.outputs, made.types))
        variant = _Variant(
            template,
            made.replays,
            made.guards,
            made.sources,
            made.functions,
            made.warnings,
            ranges_of(template.outputs),
        )
        shape.know(outline.texts, variant, {*shape.pinned, *made.pinned}, catalog)
        return _named(variant, made.values, outline.publish)

    def parsed(
        self,
        outline: Outline,
        statement: syntax.AnyQuery | syntax.CreateQuery,
        tokens: Sequence[Token],
    ) -> Shape | None:
        """Cache the dependencies of a parsed text. None if the outline does not determine them."""
        shape = self._shapes.get(outline.key)
        if shape is not None:
            return shape
        query, name, mode = statement, None, None
        if isinstance(statement, syntax.CreateQuery):
            query, name, mode = statement.query, statement.name.name, statement.mode
            if statement.parameters:
                return None
        assert isinstance(query, syntax.AnyQuery)
        publish = query.publish.name if query.publish else None
        if isinstance(query, syntax.Detect):
            publish = None  # it is at the start, and stays in the outline
        constants = [str(t) for t in tokens if t.type in ("NUMBER", "STRING")]
        if (name, publish, constants) != (outline.name, outline.publish, outline.texts):
            return None
        if (None if mode is None else mode.name.upper()) != outline.mode:
            return None
        return self._new(outline.key, Shape.of(query, outline, tokens))

    def learn(self, outline: Outline, shape: Shape, bound: Bound, catalog: Catalog) -> Known:
        """Make a template of a bound query, and cache it for similar ones."""
        own = outline.publish
        outputs, ready = bound.outputs, bound.ready
        if own is not None:
            outputs, ready = _unnamed(outputs), _unnamed(ready)
        lifted = lift(outputs, ready, bound.traces, Places(bound.tokens), shape.pinned)
        views = view_names(bound.sources.items())
        template = lifted.template
        if views or bound.mode is not None:
            template = replace(template, views=views, mode=bound.mode)
        variant = _Variant(
            self._shared(template),
            lifted.replays,
            lifted.guards,
            tuple(bound.sources.items()),
            tuple(functions_in(_expressions(outputs), catalog.functions)),
            bound.warnings,
            ranges_of(template.outputs),
        )
        shape.know(outline.texts, variant, lifted.pinned, catalog)
        return _named(variant, lifted.values, own)

    def _shared(self, template: Template) -> Template:
        """The one template of its kind. Texts of different outlines may have the same meaning."""
        if len(self._templates) >= _MOST:
            self._templates.clear()
        key = (template.outputs, template.types, template.views, template.mode)
        return self._templates.setdefault(key, template)


class Bound(NamedTuple):
    """A bound query: `outputs` from the binder, `ready` with bounds and without traces."""

    outputs: Outputs
    ready: Outputs
    traces: Sequence[Trace]
    tokens: Sequence[Token]
    sources: dict[str, Read | View]
    warnings: Warnings
    mode: ConstraintMode | None = None


def _unnamed(outputs: Outputs) -> Outputs:
    return (*outputs[:-1], Output(outputs[-1].node, None))


def _expressions(outputs: Outputs) -> Iterator[Expression]:
    return (e for o in outputs for node in walk_nodes(o.node) for e in expressions_of(node))


def _named(variant: _Variant, values: tuple[Any, ...], name: str | None) -> Known:
    template = variant.template if name is None else variant.template.publishing(name)
    warnings = variant.warnings
    if variant.ranges:
        warnings = (*warnings, *warnings_of(variant.ranges, values))
    return Known(template, values, warnings)
