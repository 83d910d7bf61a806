"""Assembly of queries from known parts (`fragments.py`).

The result is the template that the whole text would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from braid.algebra.bounds import bound_durations
from braid.algebra.expressions import Expression
from braid.algebra.nodes import Read
from braid.algebra.templates import Output, map_expressions
from braid.algebra.user_functions import Function
from braid.lang.bind.warnings import Warnings, warnings_about
from braid.lang.parse.limits import MAX_DEPTH
from braid.lang.templates.constant_replay import Replay
from braid.lang.templates.fragment_cache import (
    WRONG,
    BoundFragment,
    BoundFrame,
    Fragments,
    Frame,
    Hole,
    Variant,
)
from braid.lang.templates.fragments import Cut, cut
from braid.lang.templates.lifting import Outputs
from braid.lang.templates.outlines import Outline

if TYPE_CHECKING:
    from braid.lang.catalog.catalog import Catalog

#: The most frames in the cache.
_MOST = 10_000


class Known(NamedTuple):
    """The dependencies of a text before it is bound; `periods` are places in it."""

    reads: tuple[str, ...]
    publishes: tuple[str, ...]
    periods: tuple[int, ...]


class Assembled(NamedTuple):
    """A query and its constants; `pinned` are places in its text."""

    known: Known
    outputs: Outputs
    types: tuple[pa.DataType, ...]
    replays: tuple[Replay, ...]
    guards: tuple[Replay, ...]
    values: tuple[Any, ...]
    pinned: tuple[int, ...]
    sources: tuple[tuple[str, Read], ...]
    functions: tuple[tuple[str, Function], ...]
    warnings: Warnings


_Chosen = tuple[Variant, tuple[Any, ...], tuple[int, ...]]


class Assembler:
    """The frames of earlier texts. A frame that comes again is bound."""

    def __init__(self) -> None:
        self._frames: dict[str, Frame | None] = {}

    def known(self, outline: Outline) -> Known | None:
        """The dependencies of a text, if all of its parts are known."""
        parts = cut(outline.key)
        frame = self._frames.get(parts.frame) if parts is not None else None
        if parts is None or frame is None:
            return None
        bound = next((v for variants in frame.variants.values() for v in variants), None)
        if bound is None:
            return None
        found: list[Fragments] = []
        for hole, (key, _, _) in enumerate(parts.fragments):
            fragment = bound.fragments[hole].get(key)
            if fragment is None or not fragment.variants:
                return None
            found.append(fragment)
        return _known(frame, found, parts)

    def assemble(self, outline: Outline, catalog: Catalog) -> Assembled | None:
        """Assemble a text from its parts, and bind the new ones. None if that is impossible, or if
        the frame is new."""
        parts = cut(outline.key)
        if parts is None:
            return None
        if parts.frame not in self._frames:
            if len(self._frames) >= _MOST:
                self._frames.clear()
            self._frames[parts.frame] = None
            return None
        frame = self._frames[parts.frame]
        if frame is None:
            frame = self._frames[parts.frame] = Frame(parts.frame)
        try:
            return self._assembled(frame, parts, outline, catalog)
        except WRONG:
            return None

    def _assembled(
        self, frame: Frame, parts: Cut, outline: Outline, catalog: Catalog
    ) -> Assembled | None:
        texts = outline.texts
        own = [texts[place] for place in parts.places]
        found = frame.find(own, catalog)
        if found is None:
            frame.bind(own, catalog)
            found = frame.find(own, catalog)
        if found is None or outline.publish in (*frame.reads, *frame.publishes):
            return None
        bound = found[0]
        fragments: list[Fragments] = []
        chosen: list[_Chosen] = [(*found, parts.places)]
        for hole, (key, first, last) in enumerate(parts.fragments):
            fragment, inside = bound.fragment(hole, key), texts[first:last]
            fitting = fragment.find(inside, catalog)
            if fitting is None:
                fragment.bind(inside, catalog)
                fitting = fragment.find(inside, catalog)
            if fitting is None:
                return None
            fragments.append(fragment)
            chosen.append((*fitting, tuple(range(first, last))))
        known = _known(frame, fragments, parts)
        return None if known is None else _together(known, bound, chosen)


def _known(frame: Frame, fragments: Sequence[Fragments], parts: Cut) -> Known | None:
    """None if it is nested too deeply."""
    periods = [parts.places[place] for place in frame.periods]
    for fragment, (_, first, _) in zip(fragments, parts.fragments, strict=True):
        if frame.depth + fragment.depth > MAX_DEPTH:
            return None
        periods.extend([first + place for place in fragment.periods])
    return Known(frame.reads, frame.publishes, tuple(periods))


def _together(known: Known, frame: BoundFrame, chosen: Sequence[_Chosen]) -> Assembled:
    """The parts as one query, with parameters in the order of the text, as if it were bound as a
    whole."""
    fragments = [variant for variant, _, _ in chosen if isinstance(variant, BoundFragment)]
    entries = [
        (places[start], part, number)
        for part, (variant, _, places) in enumerate(chosen)
        for number, start in enumerate(variant.starts)
    ]
    if frame.types:
        entries.sort(key=lambda entry: entry[0])
    numbers: list[list[int]] = [[0] * len(variant.types) for variant, _, _ in chosen]
    for index, (_, part, number) in enumerate(entries):
        numbers[part][number] = index
    placed = [variant.placed(places) for variant, _, places in chosen]
    predicates = [f.numbered(tuple(own)) for f, own in zip(fragments, numbers[1:], strict=True)]
    return Assembled(
        known,
        _filled(frame.numbered(tuple(numbers[0])), predicates),
        tuple([chosen[part][0].types[number] for _, part, number in entries]),
        tuple([placed[part][0][number] for _, part, number in entries]),
        tuple([guard for _, guards in placed for guard in guards]),
        tuple([chosen[part][1][number] for _, part, number in entries]),
        tuple([places[place] for variant, _, places in chosen for place in variant.pinned]),
        frame.sources,
        tuple({f for variant, _, _ in chosen for f in variant.functions}),
        _warnings(frame, fragments),
    )


def _filled(outputs: Outputs, predicates: Sequence[Expression]) -> Outputs:
    def fill(expression: Expression) -> Expression:
        return predicates[expression.number] if isinstance(expression, Hole) else expression

    return tuple(
        [Output(bound_durations(map_expressions(o.node, fill)), o.publish) for o in outputs]
    )


def _warnings(frame: BoundFrame, fragments: Sequence[BoundFragment]) -> Warnings:
    """The warnings about the query. Whether bounds exist does not depend on the constants."""
    said = tuple([f.says for f in fragments])
    if said not in frame.endless:
        frame.endless[said] = warnings_about(_filled(frame.outputs, [f.example for f in fragments]))
    return frame.endless[said]
