"""Figures of a running shard: for each m-op, for some queries, in total.

They count from the moment at which the shard was made or loaded: nothing of them is saved, since
a counter for each of a million queries would be written with every batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from braid.engine.shard import Shard
from braid.operators.core.roles import CountsInstances
from braid.operators.core.values import Words
from braid.operators.registry import REGISTRY

#: So many queries have figures of their own if nobody is asked for by name.
MOST_QUERIES = 100


def statistics(
    shard: Shard, queries: Iterable[str] | None = None, *, most: int = MOST_QUERIES
) -> dict[str, Any]:
    """Figures as JSON could have them.

    `queries`: ids of queries (a prepared one stands for all its members) whose own figures are
    wanted; without them, those of suspended queries and of the `most` with most matches.
    """
    executor, registry = shard.executor, shard.executor.registry
    living = list(registry.living())
    numbers = _joined([admitted.first + rows for admitted, rows in living])
    matches = _matches(shard, numbers)
    if queries is None:
        asked = _busiest(shard, numbers, matches, most)
    else:
        asked = _joined([np.array(registry.numbers_of(q), np.int64) for q in queries])
    members: dict[str, int] = {}
    for admitted, rows in living:
        for signature in {stage.mop for stage in admitted.route.stages}:
            members[signature] = members.get(signature, 0) + len(rows)
    return {
        "totals": {
            "queries": registry.count,
            "suspended": len(shard.suspended),
            "matches": int(matches.sum()),
            "instances": executor.instances,
            "state_bytes": executor.state_bytes,
            "index_bytes": executor.index_bytes,
            "held": shard.held,
        },
        "watermarks": shard.watermark,
        "mops": [_mop(shard, s, members.get(s, 0)) for s in executor.order],
        "queries": _queries(shard, asked, matches[np.searchsorted(numbers, asked)]),
    }


#: What an m-op or a shard holds now, as opposed to what it has counted.
_HELD = frozenset({"instances", "state_bytes", "index_bytes", "held"})


def counted(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures of an engine that has no shard any more: what it counted remains, what it held went
    to another."""
    return {
        **figures,
        "totals": _without_held(figures["totals"]),
        "watermarks": {},
        "mops": [_without_held(mop) for mop in figures["mops"]],
        "queries": {name: _without_held(query) for name, query in figures["queries"].items()},
    }


def _without_held(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: 0 if name in _HELD else value for name, value in figures.items()}


def merged(parts: Sequence[dict[str, Any]], *, most: int | None = None) -> dict[str, Any]:
    """The figures of several shards as those of one; of queries those of `most`, if it is given,
    the busiest, and of those that are suspended.

    Events, instances and bytes are summed. Queries may be on many shards or on one: their number
    is that of the shard that has most. What an m-op has become is told of one shard.
    """
    found: dict[str, Any] = {"totals": {}, "watermarks": {}, "mops": [], "queries": {}}
    mops: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, value in part.get("totals", {}).items():
            found["totals"][name] = found["totals"].get(name, 0) + value
        for clock, time in part.get("watermarks", {}).items():
            found["watermarks"][clock] = min(time, found["watermarks"].get(clock, time))
        for mop in part.get("mops", ()):
            _add(mops.setdefault(mop["signature"], {}), mop)
        for query, figures in part.get("queries", {}).items():
            _add(found["queries"].setdefault(query, {}), figures)
    found["mops"] = list(mops.values())
    counts = [part.get("totals", {}).get("queries", 0) for part in parts]
    found["totals"]["queries"] = max(counts, default=0)
    stopped = sum(1 for figures in found["queries"].values() if figures.get("suspended"))
    found["totals"]["suspended"] = stopped
    if most is not None:
        busiest = sorted(found["queries"].items(), key=lambda item: -item[1]["matches"])
        found["queries"] = {
            query: figures
            for place, (query, figures) in enumerate(busiest)
            if place < most or figures.get("suspended")
        }
    return found


#: Figures that are summed over shards; all others are the same on every shard.
_SUMMED = frozenset(
    {"events_in", "events_out", "instances", "state_bytes", "index_bytes", "matches"}
)


def _add(known: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if name in _SUMMED:
            known[name] = known.get(name, 0) + value
        elif name == "suspended":
            known[name] = known.get(name) or value
        else:
            known.setdefault(name, value)


def _joined(parts: Sequence[Words]) -> Words:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _busiest(shard: Shard, numbers: Words, matches: Words, most: int) -> Words:
    registry = shard.executor.registry
    count = min(most, len(numbers))
    chosen = numbers[np.argsort(-matches, kind="stable")[:count]]
    stopped = [n for query in shard.suspended for n in registry.numbers_of(query)]
    more = [n for n in stopped if n not in set(chosen.tolist())]
    return np.concatenate([chosen, np.array(more, np.int64)])


def _matches(shard: Shard, numbers: Words) -> Words:
    """How many results each query has given, by all its outputs; `numbers` are in order."""
    found = np.zeros(len(numbers), np.int64)
    for point in shard.exits:
        queries, counts = point.subscribers.tallied()
        places = np.searchsorted(numbers, queries)
        np.add.at(found, places, counts)
    return found


def _mop(shard: Shard, signature: str, members: int) -> dict[str, Any]:
    executor = shard.executor
    mop, logic = shard.plan.mops[signature], executor.logics[signature]
    return {
        "signature": signature,
        "kind": REGISTRY.name_of(mop.spec),
        "does": mop.spec.describe(),
        "members": members,
        "events_in": executor.events_in.get(signature, 0),
        "events_out": executor.events_out.get(signature, 0),
        "instances": logic.instances,
        "state_bytes": logic.state_bytes,
        "index_bytes": logic.index_bytes,
        "detail": logic.describe(),
    }


def _queries(shard: Shard, numbers: Words, matches: Words) -> dict[str, dict[str, Any]]:
    registry = shard.executor.registry
    instances = _instances(shard, numbers)
    found = {}
    for number, count, held in zip(numbers.tolist(), matches.tolist(), instances, strict=True):
        name = registry.id_of(number)
        found[name] = {
            "matches": count,
            "instances": held,
            "suspended": shard.suspended.get(name),
        }
    return found


def _instances(shard: Shard, numbers: Words) -> list[int]:
    """How many instances each query has, those that it shares with others included."""
    executor = shard.executor
    waiting: dict[str, Words] = {}
    found = []
    for number in numbers.tolist():
        admitted = executor.registry.of(number)
        total = 0
        for stage, nodes in zip(admitted.route.stages, admitted.nodes, strict=True):
            logic = executor.logics[stage.mop]
            if isinstance(logic, CountsInstances):
                if stage.mop not in waiting:
                    waiting[stage.mop] = logic.waiting(shard.bound(shard.unit(stage.mop)))
                total += int(waiting[stage.mop][nodes[number - admitted.first]])
        found.append(total)
    return found
