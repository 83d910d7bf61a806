"""Queries: an id, a text, and the streams they produce."""

from __future__ import annotations

from dataclasses import dataclass

from braid.algebra.nodes import Node, reads


@dataclass(frozen=True)
class Output:
    """One stream that a query produces: `publish` is the name others read it by, if it has one."""

    node: Node
    publish: str | None


@dataclass(frozen=True)
class Query:
    """A bound query. The last output is the query's own; the others are published sub-queries,
    in an order in which each reads only earlier ones."""

    id: str
    text: str
    outputs: tuple[Output, ...]

    @property
    def node(self) -> Node:
        return self.outputs[-1].node

    @property
    def publishes(self) -> tuple[str, ...]:
        return tuple(o.publish for o in self.outputs if o.publish is not None)

    @property
    def reads(self) -> tuple[str, ...]:
        names = (name for o in self.outputs for name in reads(o.node))
        return tuple(dict.fromkeys(names))
