"""Skeletons: registering a query whose shape is known does not parse it.

The first query with an outline is parsed, bound and lifted into a template; the next ones with
that outline are one lookup, and the conversion of their constants. What a text means depends
on what the names in it mean, so each template is kept with the streams and functions that it was
bound to, and is of use only while the catalog still has exactly those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from lark import Token

from braid.algebra.expressions import Call, walk
from braid.algebra.functions import UDF_PREFIX
from braid.algebra.nodes import Read, walk_nodes
from braid.algebra.templates import Output, Template
from braid.lang import syntax
from braid.lang.dependencies import dependencies
from braid.lang.functions import Function, Functions
from braid.lang.lifting import Outputs, Places, expressions_of, lift
from braid.lang.outlines import Outline
from braid.lang.replay import Misfit, Replay
from braid.lang.tracing import Trace
from braid.lang.views import View, view_names

if TYPE_CHECKING:
    from braid.lang.catalog import Catalog

#: How many shapes, templates, and templates of one shape are remembered before starting anew.
_MOST = 50_000
#: How many ways of binding texts that differ only in constants are tried.
_WAYS = 8
#: A longer number might be too large for a duration: the parser says so, not the binder.
_SURELY_SHORT = 9


class Known(NamedTuple):
    """What a text is, without having been parsed, and the warnings that it deserves."""

    template: Template
    values: tuple[Any, ...]
    warnings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Variant:
    """One way in which the texts of a shape were bound."""

    template: Template
    replays: tuple[Replay, ...]
    guards: tuple[Replay, ...]
    sources: tuple[tuple[str, Read | View], ...]
    functions: tuple[tuple[str, Function], ...]
    warnings: tuple[tuple[str, str], ...]

    def holds(self, catalog: Catalog) -> bool:
        """Whether the names in it still mean what they meant."""
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
    """All texts with one outline: what can be said of them before they are bound.

    `reads` and `publishes` are the names of streams, without the one that an outline leaves out.
    `pinned` are the constants that decide which variant a text is.
    """

    __slots__ = ("_periods", "pinned", "publishes", "reads", "variants")

    def __init__(self, query: syntax.AnyQuery, outline: Outline, tokens: Sequence[Token]) -> None:
        found = dependencies(query)
        self.reads = tuple(found.reads)
        self.publishes = tuple(n for n in found.publishes if n != outline.publish)
        self.pinned: tuple[int, ...] = ()
        self.variants: dict[tuple[str, ...], list[_Variant]] = {}
        numbers = [i for i, t in enumerate(tokens) if t.type in ("NUMBER", "STRING")]
        self._periods = tuple(
            place
            for place, i in enumerate(numbers)
            if tokens[i + 1 : i + 2] and _is_unit(tokens[i + 1])
        )

    def parses(self, outline: Outline) -> bool:
        """Whether a text of this shape surely parses: only a duration can be too long."""
        texts = outline.texts
        return all(_surely_short(texts[place]) for place in self._periods)

    def key(self, texts: Sequence[str]) -> tuple[str, ...]:
        return tuple([texts[place] for place in self.pinned])


def _surely_short(number: str) -> bool:
    return len(number) <= _SURELY_SHORT and "e" not in number and "E" not in number


def _is_unit(token: Token) -> bool:
    return bool(token.type == "NAME")


#: What tells templates apart: outputs, types of parameters, views.
_Key = tuple[Outputs, tuple[pa.DataType, ...], tuple[str, ...]]


class Skeletons:
    """The shapes and templates that have been seen."""

    def __init__(self) -> None:
        self._shapes: dict[str, Shape] = {}
        self._templates: dict[_Key, Template] = {}

    def shape(self, outline: Outline) -> Shape | None:
        """The shape of a text that therefore need not be parsed to know what it depends on."""
        shape = self._shapes.get(outline.key)
        return shape if shape is not None and shape.parses(outline) else None

    def find(self, outline: Outline, catalog: Catalog) -> Known | None:
        """The template and the constants of a text, if one like it has been bound before."""
        shape = self._shapes.get(outline.key)
        if shape is None:
            return None
        name, texts = outline.publish, outline.texts
        if name is not None and (name in shape.reads or name in shape.publishes):
            return None  # an error, which the binder has to say
        for variant in shape.variants.get(shape.key(texts), ()):
            if not variant.holds(catalog):
                continue
            values = variant.values(texts)
            if values is not None:
                template = variant.template if name is None else variant.template.publishing(name)
                return Known(template, values, variant.warnings)
        return None

    def parsed(
        self,
        outline: Outline,
        statement: syntax.AnyQuery | syntax.CreateQuery,
        tokens: Sequence[Token],
    ) -> Shape | None:
        """Remember what a text that parses depends on; None if its outline does not say it all."""
        shape = self._shapes.get(outline.key)
        if shape is not None:
            return shape
        query, name = statement, None
        if isinstance(statement, syntax.CreateQuery):
            query, name = statement.query, statement.name.name
            if statement.parameters:
                return None
        assert isinstance(query, syntax.AnyQuery)
        publish = query.publish.name if query.publish else None
        constants = [str(t) for t in tokens if t.type in ("NUMBER", "STRING")]
        if (name, publish, constants) != (outline.name, outline.publish, outline.texts):
            return None
        if len(self._shapes) >= _MOST:
            self._shapes.clear()
        shape = self._shapes[outline.key] = Shape(query, outline, tokens)
        return shape

    def learn(self, outline: Outline, shape: Shape, bound: Bound, catalog: Catalog) -> Known:
        """Make a template of a query that was bound, and remember it for those like it."""
        own = outline.publish
        outputs, ready = bound.outputs, bound.ready
        if own is not None:
            outputs, ready = _unnamed(outputs), _unnamed(ready)
        lifted = lift(outputs, ready, bound.traces, Places(bound.tokens), shape.pinned)
        pinned = tuple(sorted(lifted.pinned))
        if pinned != shape.pinned or len(shape.variants) >= _MOST:
            shape.pinned = pinned
            shape.variants.clear()
        views = view_names(bound.sources.items())
        template = self._shared(replace(lifted.template, views=views) if views else lifted.template)
        variant = _Variant(
            template,
            lifted.replays,
            lifted.guards,
            tuple(bound.sources.items()),
            tuple(_functions(outputs, catalog.functions)),
            bound.warnings,
        )
        variants = shape.variants.setdefault(shape.key(outline.texts), [])
        variants[:] = [v for v in variants if v.holds(catalog)][-_WAYS:]
        variants.append(variant)
        return Known(
            template if own is None else template.publishing(own), lifted.values, bound.warnings
        )

    def _shared(self, template: Template) -> Template:
        """The one template of its kind: texts of different outlines may mean the same."""
        if len(self._templates) >= _MOST:
            self._templates.clear()
        key = (template.outputs, template.types, template.views)
        return self._templates.setdefault(key, template)


class Bound(NamedTuple):
    """A query as it was bound: `outputs` by the binder, `ready` with bounds and without traces."""

    outputs: Outputs
    ready: Outputs
    traces: Sequence[Trace]
    tokens: Sequence[Token]
    sources: dict[str, Read | View]
    warnings: tuple[tuple[str, str], ...]


def _unnamed(outputs: Outputs) -> Outputs:
    return (*outputs[:-1], Output(outputs[-1].node, None))


def _functions(outputs: Outputs, known: Functions) -> Iterator[tuple[str, Function]]:
    """The user's functions that a query calls."""
    for output in outputs:
        for node in walk_nodes(output.node):
            for part in (p for e in expressions_of(node) for p in walk(e)):
                if isinstance(part, Call) and part.function.startswith(UDF_PREFIX):
                    function = known.get(part.function.removeprefix(UDF_PREFIX))
                    assert function is not None
                    yield function.name, function
