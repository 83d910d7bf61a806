"""Predicate pushdown: moves selections next to the streams and into patterns, to share them.

    SELECT a FROM FILTER{b > 5}(SELECT a, b FROM S)   ->  select below the projection
    FILTER{p}(A UNION B)                              ->  FILTER{p}(A) UNION FILTER{p}(B)
    FILTER{p}(FILTER{q}(S))                           ->  FILTER{q AND p}(S)
    A NEXT{r} FILTER{q}(B)                            ->  A NEXT{r AND q of $2} B
    A NEXT{p of $1 AND r} B                           ->  FILTER{p}(A) NEXT{r} B

Each keeps every query's answer: an event that q refuses is passed over by NEXT and FOLD as one
that the predicate refuses is; an event of the first input that p refuses starts nothing that
could ever be completed. A conjunct with DUR stays where it is: there it means another event's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from braid.algebra.documents import Documents
from braid.algebra.expressions import (
    Duration,
    Expression,
    Ref,
    Source,
    conjunction,
    conjuncts,
    is_true,
    refs,
    transform,
    walk,
)
from braid.algebra.functions import is_vector
from braid.algebra.nodes import (
    Extension,
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
)
from braid.algebra.relations import ToStream


def rearrange(node: Node) -> Node:
    """An equivalent expression whose selections stand as low as they can."""
    match node:
        case Read() | Documents():
            return node
        case Select():
            below = rearrange(node.input)
            if below is node.input and isinstance(
                below, Read | Sequence | Iterate | SameTime | ToStream | Documents
            ):
                return node
            return _select(below, node.predicate)
        case Project() | SameTime():
            below = rearrange(node.input)
            return node if below is node.input else replace(node, input=below)
        case Union():
            return replace(node, first=rearrange(node.first), second=rearrange(node.second))
        case Sequence() | Iterate():
            return _pattern(node, rearrange(node.first), rearrange(node.second))
        case ToStream() | Extension():
            return node.over(tuple(map(rearrange, node.inputs)))


def _select(below: Node, predicate: Expression) -> Node:
    if is_true(predicate):
        return below
    match below:
        case Select(input=input_, predicate=earlier):
            return _select(input_, conjunction((*conjuncts(earlier), *conjuncts(predicate))))
        case Union(first=first, second=second):
            return replace(
                below, first=_select(first, predicate), second=_select(second, predicate)
            )
        case Project(input=input_, items=items):
            computed = dict(items)
            used = {ref.name for ref in refs(predicate)}
            # A vector function is computed once, as an attribute, and not inside a predicate.
            if any(is_vector(e) for n in used for e in walk(computed[n])):
                return Select(below, predicate)
            return replace(below, input=_select(input_, _substituted(predicate, computed)))
    return Select(below, predicate)


def _substituted(predicate: Expression, items: dict[str, Expression]) -> Expression:
    def change(part: Expression) -> Expression | None:
        return items[part.name] if isinstance(part, Ref) else None

    return transform(predicate, change)


def _pattern(node: Sequence | Iterate, first: Node, second: Node) -> Node:
    parts = conjuncts(node.predicate)
    if isinstance(second, Select):
        kept = [p for p in conjuncts(second.predicate) if _has_duration(p)]
        moved = [p for p in conjuncts(second.predicate) if not _has_duration(p)]
        parts += tuple(_moved(p, Source.SECOND) for p in moved)
        second = _select(second.input, conjunction(tuple(kept)))
    early, rest = _divided(parts)
    first = _select(first, early)
    if first is node.first and second is node.second:
        return node
    return replace(node, first=first, second=second, predicate=rest)


@lru_cache(1 << 16)
def _divided(parts: tuple[Expression, ...]) -> tuple[Expression, Expression]:
    """What is asked of the first event only, said of that, and the rest."""
    early = tuple(_moved(p, Source.INPUT) for p in parts if _only_first(p))
    rest = tuple(p for p in parts if not _only_first(p))
    return conjunction(early), conjunction(rest)


def _has_duration(expression: Expression) -> bool:
    return any(isinstance(e, Duration) for e in walk(expression))


def _only_first(expression: Expression) -> bool:
    found = [ref.source for ref in refs(expression)]
    return bool(found) and not _has_duration(expression) and set(found) == {Source.FIRST}


def _moved(expression: Expression, source: Source) -> Expression:
    def change(part: Expression) -> Expression | None:
        return replace(part, source=source) if isinstance(part, Ref) else None

    return transform(expression, change)
