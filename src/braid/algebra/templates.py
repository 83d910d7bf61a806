"""Templates: queries that differ only in their constants, as one query and a table of constants.

A template's outputs have `Parameter`s where its queries have constants. What cannot be known
without the constants is left open in them: a duration that is compared with a parameter bounds
nothing, so a template's horizons are at least as long as those of any of its queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from braid.algebra.bounds import bound_durations
from braid.algebra.constraints import ConstraintMode
from braid.algebra.documents import Documents
from braid.algebra.expressions import Expression, Literal, Parameter, transform
from braid.algebra.nodes import (
    Extension,
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Union,
    reads,
)
from braid.algebra.nodes import Sequence as SequenceNode
from braid.algebra.relations import ToStream, rebuilt
from braid.algebra.types import Kind, kind_of


@dataclass(frozen=True, slots=True)
class Output:
    """One stream that a query produces: `publish` is the name others read it by, if it has one."""

    node: Node
    publish: str | None


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Template:
    """A bound query with its constants lifted out. Equal only to itself.

    `types` are the types of the parameters. The last output is the query's own; the others are
    published sub-queries, in an order in which each reads only earlier ones. `base` is the
    template that this one is another name of: their nodes are the same objects. `views` are the
    views that a text of it names; what they stand for is written out in the nodes. `mode` is what
    its joins may do with constraints, None if the session says it.
    """

    outputs: tuple[Output, ...]
    types: tuple[pa.DataType, ...] = ()
    base: Template | None = None
    views: tuple[str, ...] = ()
    mode: ConstraintMode | None = None
    publishes: tuple[str, ...] = field(init=False, repr=False)
    reads: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        published = tuple([o.publish for o in self.outputs if o.publish is not None])
        object.__setattr__(self, "publishes", published)
        object.__setattr__(self, "reads", self.base.reads if self.base else self._find_reads())

    def _find_reads(self) -> tuple[str, ...]:
        names = (name for o in self.outputs for name in reads(o.node))
        return tuple(dict.fromkeys(names))

    def instantiate(self, values: Sequence[Any]) -> tuple[Output, ...]:
        """The outputs of the query with these constants, bound as if they stood in its text."""
        assert len(values) == len(self.types), "one value for each parameter"
        if not self.types:
            return self.outputs
        literals = [Literal(v, t) for v, t in zip(values, self.types, strict=True)]

        def fill(part: Expression) -> Expression | None:
            return literals[part.index] if isinstance(part, Parameter) else None

        return tuple(
            Output(
                bound_durations(map_expressions(o.node, lambda e: transform(e, fill))), o.publish
            )
            for o in self.outputs
        )

    def publishing(self, name: str) -> Template:
        """The same template under another name of its own stream; the nodes are shared."""
        own = Output(self.outputs[-1].node, name)
        outputs = (*self.outputs[:-1], own)
        return Template(outputs, self.types, self.base or self, self.views, self.mode)


@dataclass(frozen=True, eq=False)
class Members:
    """Many queries of one template: their ids, and an array of constants for each parameter."""

    template: Template
    ids: pa.StringArray
    values: tuple[pa.Array, ...]

    def __post_init__(self) -> None:
        assert len(self.values) == len(self.template.types)
        for array, type_ in zip(self.values, self.template.types, strict=True):
            assert array.type == type_, f"{array.type} for a parameter of {type_}"
            assert len(array) == len(self.ids), "one constant for each query"
            assert array.null_count == 0, "a constant is never NULL"

    def __len__(self) -> int:
        return len(self.ids)

    @staticmethod
    def of(template: Template, ids: Sequence[str], values: Sequence[Sequence[Any]]) -> Members:
        """From rows of plain values, one for each id."""
        columns = zip(*values, strict=True) if values else [()] * len(template.types)
        arrays = tuple(
            pa.array(list(column), type_)
            for column, type_ in zip(columns, template.types, strict=True)
        )
        return Members(template, pa.array(ids, pa.string()), arrays)

    def row(self, index: int) -> tuple[Any, ...]:
        """The constants of one query as plain values (see `algebra.expressions`)."""
        return tuple(plain(array[index]) for array in self.values)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The constants of all queries, in the order of the ids."""
        if not self.values:
            return iter([()] * len(self))
        return zip(*(map(plain, array) for array in self.values), strict=True)


def plain(scalar: pa.Scalar) -> Any:
    """An Arrow scalar as the algebra holds values: times and durations are numbers."""
    if kind_of(scalar.type) in (Kind.TIMESTAMP, Kind.DATE, Kind.DURATION):
        return scalar.value
    return scalar.as_py()


def map_expressions(node: Node, change: Callable[[Expression], Expression]) -> Node:
    """The same operators over changed expressions; what stays the same is the same object."""

    def below(child: Node) -> Node:
        return map_expressions(child, change)

    match node:
        case Read():
            return node
        case Select():
            return _over(node, input=below(node.input), predicate=change(node.predicate))
        case Project():
            return _over(node, input=below(node.input), items=_items(node.items, change))
        case SameTime():
            aggregates = tuple(replace(a, args=tuple(map(change, a.args))) for a in node.aggregates)
            return replace(node, input=below(node.input), aggregates=aggregates)
        case Union():
            return _over(node, first=below(node.first), second=below(node.second))
        case SequenceNode():
            first, second = below(node.first), below(node.second)
            return _over(node, first=first, second=second, predicate=change(node.predicate))
        case Iterate():
            first, second = below(node.first), below(node.second)
            predicate, rebind = change(node.predicate), change(node.rebind)
            return _over(
                node,
                first=first,
                second=second,
                predicate=predicate,
                rebind=rebind,
                aggregates=_items(node.aggregates, change),
            )
        case Documents():
            return node.changed(change)
        case Extension():
            return node.over(tuple(map(below, node.inputs)))
        case ToStream():
            return replace(node, relation=rebuilt(node.relation, change, below))


def _over(node: Select | Project | Union | SequenceNode | Iterate, **fields: Any) -> Node:
    """The node with other fields; the same one if they are what it has."""
    same = all(getattr(node, name) is value for name, value in fields.items())
    return node if same else replace(node, **fields)


def _items(
    items: tuple[tuple[str, Expression], ...], change: Callable[[Expression], Expression]
) -> tuple[tuple[str, Expression], ...]:
    """The items with other expressions; the same tuple if no expression is another one."""
    changed = tuple([(name, change(e)) for name, e in items])
    same = all(new[1] is old[1] for new, old in zip(changed, items, strict=True))
    return items if same else changed
