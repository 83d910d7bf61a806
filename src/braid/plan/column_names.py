"""Column names: in which column of an operator's channel each attribute of an expression is.

Queries call attributes as they like, and each shows others. So an operator names its columns by where
their values come from, and queries that differ only in what they show, or in the names, agree:

    SELECT Price_1 AS low FROM A NEXT{...} B     low is `f:Price`, of the first event
    SELECT Price AS high FROM A NEXT{...} B      high is `e:Price`, of the event that completes it
    SELECT Price + 1 AS more FROM S              more is `=Price + :0#...`, what is computed
    SELECT Price AS p FROM S                     p is `Price`, the column of the stream

`l:a` is a value that FOLD keeps of its last iteration. All other operators have their attributes'
own names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from braid.algebra.expressions import Expression, Ref, Source, refs, transform, walk
from braid.algebra.functions import is_vector
from braid.algebra.nodes import Iterate, Node, Project, Select, Sequence
from braid.algebra.text import show
from braid.plan.predicates import Lifter
from braid.plan.sharing import signature

Names = Mapping[str, str]

_DIGEST = 8
_SOURCES_AND_DIGESTS = re.compile(rf"\b[fel]:|#[0-9a-f]{{{_DIGEST}}}")


def shown_columns(text: str) -> str:
    """A text for readers: columns without their sources, and without the digests that tell equal
    ones apart."""
    return _SOURCES_AND_DIGESTS.sub("", text)


@lru_cache(1 << 14)
def columns_of(node: Node) -> Names:
    """The column of each attribute."""
    match node:
        case Select():
            return columns_of(node.input)
        case Project():
            return _of_project(node)
        case Sequence():
            return _of_sequence(node)
        case Iterate():
            return {name: _of_iterate(node, name) for name in node.schema.names}
        case _:
            return {name: name for name in node.schema.names}


def renamed(expression: Expression, names: Mapping[Source, Names]) -> Expression:
    """The expression with every attribute of these sources called as its column."""
    found = refs(expression)
    if all(r.source not in names or names[r.source].get(r.name, r.name) == r.name for r in found):
        return expression

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Ref) and part.source in names:
            return Ref(part.source, names[part.source].get(part.name, part.name), part.type)
        return None

    return transform(expression, change)


def _of_project(node: Project) -> Names:
    below = columns_of(node.input)
    found: dict[str, str] = {}
    for name, expression in node.items:
        if isinstance(expression, Ref):
            found[name] = below[expression.name]
        else:
            column = _computed(renamed(expression, {Source.INPUT: below}))
            taken = sum(other.startswith(column) for other in found.values())
            found[name] = f"{column}.{taken}" if taken else column
    return found


def _computed(expression: Expression) -> str:
    # Functions over whole columns take constants as they are: see `_Walk.lifted`.
    if not any(is_vector(e) for e in walk(expression)):
        expression = Lifter().lift(expression)
    return f"={show(expression)}#{signature((expression,))[:_DIGEST]}"


def _of_sequence(node: Sequence) -> Names:
    first, second = columns_of(node.first), columns_of(node.second)
    sources = [f"f:{first[name]}" for name in node.first.schema.names]
    sources += [f"e:{second[name]}" for name in node.second.schema.names]
    return dict(zip(node.names, sources, strict=True))


def _of_iterate(node: Iterate, attribute: str) -> str:
    if attribute in node.second.schema or any(attribute == n for n, _ in node.aggregates):
        return f"l:{last_columns(node)[attribute]}"
    return f"f:{columns_of(node.first)[attribute_of_first(node, attribute)]}"


def attribute_of_first(node: Iterate, attribute: str) -> str:
    """The attribute of the first event that an iteration shows under a name."""
    if attribute in node.first.schema:
        return attribute
    assert attribute.endswith("_1")
    return attribute[:-2]


def columns_read(node: Sequence | Iterate) -> Mapping[Source, Names]:
    """The columns that the predicates of a pattern operator read."""
    found = {Source.FIRST: columns_of(node.first), Source.SECOND: columns_of(node.second)}
    if isinstance(node, Iterate):
        found[Source.LAST] = last_columns(node)
    return found


@lru_cache(4096)
def last_columns(node: Iterate) -> Names:
    """The column of each value of the last iteration, by what it starts as and how it goes on."""
    first, second = columns_of(node.first), columns_of(node.second)
    found: dict[str, str] = {}
    for name in node.second.schema.names:
        start, event = first[name], second[name]
        found[name] = event if start == event else f"{start}>{event}"
    for name, _ in node.aggregates:
        found[name] = f"{name}#{_aggregate_digest(node, name)}"
    return found


def _aggregate_digest(node: Iterate, name: str) -> str:
    """Two aggregates of one name are equal if all that they depend on is."""
    first, second = columns_of(node.first), columns_of(node.second)
    names = {Source.FIRST: first, Source.SECOND: second}
    kept = closure(node, {name})
    parts = [
        (n, first.get(n), second[n] if e is None else Lifter().lift(renamed(e, names)))
        for n, e in sorted(kept.items(), key=lambda item: item[0])
    ]
    return signature((name, *parts))[:_DIGEST]


def closure(node: Iterate, names: set[str]) -> dict[str, Expression | None]:
    """The values of the last iteration that these depend on, these included: the expression of an
    aggregate, None for an attribute of the event."""
    aggregates = dict(node.aggregates)
    found: dict[str, Expression | None] = {}
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            update = found[name] = aggregates.get(name)
            if update is not None:
                waiting.extend(r.name for r in refs(update) if r.source is Source.LAST)
    return found
