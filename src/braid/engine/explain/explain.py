"""The shared plan explained: as text, as JSON, as a picture.

engine.explain()                 prints as text, shows as a picture in a notebook
engine.explain().to_dict()       for programs
engine.explain("jump")           what one query goes through, and the automaton that it is
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braid.engine.explain.explain_text import (
    details,
    named,
    origin_lines,
    rules_of,
)
from braid.engine.explain.overview import (
    ChannelView,
    ExitView,
    MopView,
    Overview,
    collect_plan,
    short,
)
from braid.engine.explain.plan_svg import draw
from braid.engine.shard import Shard
from braid.errors import BraidError
from braid.lang import Catalog
from braid.lang.parse.problems import listing
from braid.operators.core.wording import counted
from braid.operators.registry import REGISTRY
from braid.plan.plan import channel_owner

#: More m-ops, exits or templates than this are not listed one by one in a text.
MOST_MOPS, MOST_EXITS, MOST_TEMPLATES = 200, 50, 10


class Explanation:
    """What a shard runs, as it is when this is made."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._whole = collect_plan(shard)
        self._parts: dict[str, Overview] = {}

    def _of(self, query: str | None) -> Overview:
        if query is None:
            return self._whole
        if query not in self._parts:
            numbers = self._shard.executor.registry.numbers_of(query)
            self._parts[query] = collect_plan(self._shard, numbers)
        return self._parts[query]

    def text(self, query: str | None = None) -> str:
        """For people. Of one query (or of all members of a prepared one) only the part of it."""
        found = self._of(query)
        lines = [_head(found, query), *_source_lines(found), *_template_lines(found)]
        shown = list(found.mops.values())[:MOST_MOPS]
        for view in shown:
            lines += ["", *_mop_lines(view, found.channels)]
        more = len(found.mops) - len(shown)
        if more:
            lines += ["", f"and {counted(more, 'm-op')} more"]
        return "\n".join([*lines, *_exit_lines(found)])

    def to_dict(self, query: str | None = None) -> dict[str, Any]:
        """For programs: everything that the text says, as JSON could have it."""
        found = self._of(query)
        return {
            "queries": found.queries,
            "streams": [
                {"name": n, "columns": [{"name": c, "type": t} for c, t in columns]}
                for n, columns in found.sources.items()
            ],
            "templates": [{"queries": w.count, "some": w.some} for w in found.templates],
            "mops": [_mop_dict(view, found.channels) for view in found.mops.values()],
            "exits": [_exit_dict(view) for view in found.exits],
        }

    def svg(self, query: str | None = None) -> str:
        """A picture: streams, m-ops and exits from left to right."""
        return draw(self._of(query))


class Explained(str):
    """An explanation that is its own text, and a picture where pictures are shown."""

    explanation: Explanation
    _query: str | None

    def __new__(
        cls, explanation: Explanation, query: str | None = None, more: Sequence[str] = ()
    ) -> Explained:
        made = super().__new__(cls, "\n".join((explanation.text(query), *more)))
        made.explanation = explanation
        made._query = query
        return made

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        return self.explanation.to_dict(self._query)

    def svg(self) -> str:
        return self.explanation.svg(self._query)

    def _repr_svg_(self) -> str:
        return self.svg()


def explained(shard: Shard, catalog: Catalog, query: str | None = None) -> Explained:
    """The plan of all queries, or of one (or of the members of a prepared one) with its automaton."""
    if query is None:
        return Explained(Explanation(shard))
    roster = catalog.prepared.get(query)
    if roster is not None:
        node = roster.template.outputs[-1].node
    elif query in catalog.queries:
        node = catalog.queries[query].node
    else:
        known = listing([*catalog.prepared, *catalog.queries.single])
        raise BraidError("E134", f"there is no query {query!r}", f"queries: {known}")
    more = ("", *REGISTRY.query_lines(node, query))
    return Explained(Explanation(shard), query, more)


# ---- text ----


def _head(found: Overview, query: str | None) -> str:
    parts = (counted(len(found.mops), "m-op"), counted(len(found.exits), "exit"))
    whose = counted(found.queries, "query") if query is None else f"query {query}"
    return f"plan of {whose}: {', '.join(parts)}"


def _source_lines(found: Overview) -> list[str]:
    return ["", "streams"] + [
        f"  {name}: {', '.join(f'{c} {t}' for c, t in columns) or 'only its time'}"
        for name, columns in found.sources.items()
    ]


def _template_lines(found: Overview) -> list[str]:
    lines = ["", counted(len(found.templates), "template")]
    for who in found.templates[:MOST_TEMPLATES]:
        like = who.some[0] if who.count == 1 else f"like {who.some[0]}"
        lines.append(f"  {counted(who.count, 'query')} {like}")
    rest = found.templates[MOST_TEMPLATES:]
    if rest:
        total = counted(sum(who.count for who in rest), "query")
        lines.append(f"  {total} of {counted(len(rest), 'template')} more")
    return lines


def _mop_lines(view: MopView, channels: dict[str, ChannelView]) -> list[str]:
    lines = [
        f"{view.name} {view.kind}: {view.mop.spec.describe()}",
        f"  reads {', '.join(_channel(channels[c]) for c in view.mop.inputs)}",
        f"  writes {', '.join(_channel(channels[c]) for c in view.outputs[:MOST_TEMPLATES])}",
    ]
    if len(view.outputs) > MOST_TEMPLATES:
        lines[-1] += f" and {counted(len(view.outputs) - MOST_TEMPLATES, 'channel')} more"
    if REGISTRY.kind_of(view.mop.spec).has_members:
        lines.append(f"  {named(view.members, 'member')}")
        lines.append(f"  {counted(view.templates, 'template')}")
    return lines + [f"  {line}" for line in (*details(view), *origin_lines(view))]


def channel_name(channel: str) -> str:
    """`stream Stock`, or the m-op that writes it and the port where there are several."""
    if channel.startswith("stream:"):
        return f"stream {channel.removeprefix('stream:')}"
    owner = channel_owner(channel)
    port = channel[len(owner) + 1 :]
    return f"{short(owner)}/{port[:8]}" if port else short(owner)


def _channel(view: ChannelView) -> str:
    name = channel_name(view.name)
    if view.name.startswith("stream:"):
        return name
    if not view.membered:
        return f"{name} (everybody's)"
    told = counted(view.nodes, "member node")
    return f"{name} (channel of {counted(view.queries, 'member')}, {told})"


def _exit_lines(found: Overview) -> list[str]:
    lines = ["", "exits"]
    for view in found.exits[:MOST_EXITS]:
        columns = ", ".join(view.point.names) or "only its time"
        lines.append(f"  {_exit_name(view)}: {columns}")
        come = f"from {channel_name(view.point.channel)}"
        lines.append(f"    {named(view.queries, 'query')}, {come}")
    more = len(found.exits) - MOST_EXITS
    return lines + ([f"  and {counted(more, 'exit')} more"] if more > 0 else [])


def _exit_name(view: ExitView) -> str:
    return view.point.stream or "not published"


# ---- JSON ----


def _mop_dict(view: MopView, channels: dict[str, ChannelView]) -> dict[str, Any]:
    return {
        "signature": view.mop.signature,
        "kind": view.kind,
        "does": view.mop.spec.describe(),
        "inputs": [_channel_dict(channels[c]) for c in view.mop.inputs],
        "outputs": [_channel_dict(channels[c]) for c in view.outputs],
        "members": view.members.count,
        "some": view.members.some,
        "templates": view.templates,
        "operators": view.operators,
        "rules": list(rules_of(view)),
        "notes": details(view),
        "detail": view.detail,
    }


def _channel_dict(view: ChannelView) -> dict[str, Any]:
    return {
        "channel": view.name,
        "members": view.queries,
        "nodes": view.nodes,
        "membered": view.membered,
    }


def _exit_dict(view: ExitView) -> dict[str, Any]:
    return {
        "stream": view.point.stream,
        "channel": view.point.channel,
        "columns": list(view.point.names),
        "queries": view.queries.count,
        "some": view.queries.some,
    }
