"""The shared plan: m-ops in an order in which each reads only what comes before it.

A *channel* is what flows between m-ops: the rows of one m-op's output or of one source, and the
set of queries (members) that they belong to. An m-op is known by its *signature*, a hash of the
expression that it stands for, inputs included and names of queries left out: equal expressions
of different queries are one m-op, and a restart finds its state again by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from braid.algebra.schema import Schema
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class Mop:
    """One m-op in the plan; its output channel has the same signature."""

    signature: str
    spec: Spec
    inputs: tuple[str, ...]
    members: frozenset[str]


@dataclass(frozen=True)
class Outlet:
    """A result stream of a query: which channel it is and how its rows are shown."""

    query: str
    stream: str | None
    channel: str
    schema: Schema
    time_type: pa.DataType


@dataclass(frozen=True)
class Plan:
    """`sources`: what is read of each stream; the channel of a stream is its name."""

    sources: Mapping[str, Shape]
    mops: tuple[Mop, ...]
    outlets: tuple[Outlet, ...]

    def __post_init__(self) -> None:
        """The invariants: acyclic by order, every input known, every outlet's schema there."""
        known: dict[str, Shape] = {source_channel(s): shape for s, shape in self.sources.items()}
        for mop in self.mops:
            for channel in mop.inputs:
                assert channel in known, f"{mop.signature} reads {channel} before it is made"
            assert mop.signature not in known, f"{mop.signature} is there twice"
            known[mop.signature] = mop.spec.output
        for outlet in self.outlets:
            shape = known[outlet.channel].schema
            for attribute in outlet.schema:
                assert shape.type_of(attribute.name) == attribute.type, outlet

    @property
    def stateful(self) -> bool:
        return any(mop.spec.stateful for mop in self.mops)


def source_channel(stream: str) -> str:
    return f"stream:{stream}"


def explain(plan: Plan, query: str | None = None) -> str:
    """The plan as text: what each m-op does, reads, and for whom; only one query's part if named."""
    wanted = _reachable(plan, query)
    numbers = {m.signature: f"m{i}" for i, m in enumerate(plan.mops)}
    lines = ["plan"]
    for stream, shape in sorted(plan.sources.items()):
        if source_channel(stream) in wanted:
            lines.append(
                f"  stream {stream}: reads {', '.join(shape.schema.names) or 'times only'}"
            )
    for mop in plan.mops:
        if mop.signature in wanted:
            inputs = ", ".join(numbers.get(c, c.removeprefix("stream:")) for c in mop.inputs)
            lines.append(f"  {numbers[mop.signature]} = {mop.spec.describe()}")
            lines.append(f"      reads {inputs}; members {_members(mop.members)}")
    for outlet in plan.outlets:
        if outlet.channel in wanted and query in (None, outlet.query):
            source = numbers.get(outlet.channel, outlet.channel.removeprefix("stream:"))
            target = f" publishes {outlet.stream}" if outlet.stream else ""
            lines.append(f"  query {outlet.query}{target} <- {source}")
    return "\n".join(lines)


def _members(members: frozenset[str]) -> str:
    shown = sorted(members)
    return (
        ", ".join(shown) if len(shown) <= 5 else f"{', '.join(shown[:5])} and {len(shown) - 5} more"
    )


def _reachable(plan: Plan, query: str | None) -> set[str]:
    wanted = {o.channel for o in plan.outlets if query in (None, o.query)}
    for mop in reversed(plan.mops):
        if mop.signature in wanted:
            wanted.update(mop.inputs)
    return wanted
