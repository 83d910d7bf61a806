"""What Braid writes beside Spark's checkpoint, and when a checkpoint is refused.

`<checkpoint>/braid/plan.json` has the version of the format, the streams, the number of shards,
and where every query was placed. Placements are kept over restarts, because that is where the
state is; what cannot be kept is refused with what differs and what to do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braid.algebra.queries import Query
from braid.algebra.streams import Stream
from braid.algebra.types import sql_name
from braid.errors import CheckpointError
from braid.plan.distribution import Distribution, Placement

#: Changes whenever an older Braid's state or routing could be misread.
FORMAT = 1

_NEW = "start with a new checkpoint directory (the sources are then read from their start)"


@dataclass(frozen=True)
class SavedPlan:
    """A distribution as it is written down."""

    shards: int
    stateful: bool
    streams: Mapping[str, Mapping[str, Any]]
    #: The digest of the text and the placement of each query.
    queries: Mapping[str, tuple[str, Placement]]

    @staticmethod
    def of(distribution: Distribution, *, stateful: bool = True) -> SavedPlan:
        return SavedPlan(
            distribution.shards,
            stateful,
            {name: describe(stream) for name, stream in distribution.streams.items()},
            {
                query.id: (digest(query), distribution.placements[query.id])
                for component in distribution.components
                for query in component.queries
            },
        )

    def to_json(self) -> str:
        queries = {
            name: {
                "text": text,
                "mode": placement.mode,
                "shard": placement.shard,
                "routes": placement.routes,
            }
            for name, (text, placement) in self.queries.items()
        }
        return json.dumps(
            {
                "format": FORMAT,
                "shards": self.shards,
                "stateful": self.stateful,
                "streams": self.streams,
                "queries": queries,
            },
            indent=1,
        )

    @staticmethod
    def from_json(text: str) -> SavedPlan:
        try:
            data = json.loads(text)
            found = data["format"]
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(
                "E410", "the checkpoint's braid/plan.json cannot be read", _NEW
            ) from None
        if found != FORMAT:
            raise CheckpointError(
                "E411",
                f"the checkpoint has format {found}, this version of Braid writes format {FORMAT}",
                f"run it with the version of Braid that wrote it, or {_NEW}",
            )
        return SavedPlan(
            data["shards"],
            data["stateful"],
            data["streams"],
            {
                name: (
                    q["text"],
                    Placement(q["mode"], tuple(tuple(r) for r in q["routes"]), q["shard"]),
                )
                for name, q in data["queries"].items()
            },
        )

    def check_frame(self, streams: Mapping[str, Stream], shards: int) -> None:
        """Refuse other streams or another number of shards."""
        differences = stream_differences(self.streams, streams)
        if differences:
            raise CheckpointError(
                "E412",
                "the checkpoint was written with other streams:\n    " + "\n    ".join(differences),
                f"declare the streams as they were, or {_NEW}",
            )
        if shards != self.shards:
            raise CheckpointError(
                "E413",
                f"the checkpoint has {self.shards} shards, this session has {shards}",
                f"use Session(shards={self.shards}), or {_NEW}",
            )

    def check_state(self, distribution: Distribution) -> None:
        """Refuse to add the first query with state to a pipeline that has no shards."""
        if not self.stateful and not distribution.is_stateless:
            names = [q.id for c in distribution.components if c.mode != "spread" for q in c.queries]
            raise CheckpointError(
                "E415",
                f"the checkpoint is of queries without state, and {', '.join(names[:5])} needs some",
                _NEW,
            )

    def kept(self, queries: Sequence[Query]) -> dict[str, Placement]:
        """The placements of queries that are still there with the same text."""
        found = {}
        for query in queries:
            saved = self.queries.get(query.id)
            if saved is not None and saved[0] == digest(query):
                found[query.id] = saved[1]
        return found

    def check(self, distribution: Distribution) -> None:
        """Refuse a distribution that looks for the state of a query where it is not.

        `Session.start` keeps placements, so this holds there. It is the only guard where the
        pipeline is started by the user's own `writeStream`.
        """
        self.check_frame(distribution.streams, distribution.shards)
        queries = [query for c in distribution.components for query in c.queries]
        for name, placement in self.kept(queries).items():
            if placement != distribution.placements[name]:
                raise CheckpointError(
                    "E414",
                    f"the checkpoint has the state of query '{name}' in another place",
                    f"use Session.start, which keeps queries where they are, or {_NEW}",
                )


def digest(query: Query) -> str:
    return hashlib.sha256(query.text.encode()).hexdigest()[:16]


def describe(stream: Stream) -> dict[str, Any]:
    """What of a stream's declaration the state depends on; lateness may change."""
    return {
        "columns": [[a.name, sql_name(a.type)] for a in stream.columns],
        "time": list(stream.time),
        "sequence": stream.sequence,
    }


def stream_differences(
    saved: Mapping[str, Mapping[str, Any]], streams: Mapping[str, Stream]
) -> list[str]:
    now = {name: describe(stream) for name, stream in streams.items()}
    found = [f"stream {name} is missing now" for name in saved if name not in now]
    found += [f"stream {name} is new" for name in now if name not in saved]
    for name in saved:
        if name in now:
            for part, old in saved[name].items():
                if old != now[name][part]:
                    found.append(
                        f"{part} of {name}: {_show(old)} then, {_show(now[name][part])} now"
                    )
    return found


def _show(value: Any) -> str:
    if isinstance(value, list):
        return "(" + ", ".join(" ".join(v) if isinstance(v, list) else str(v) for v in value) + ")"
    return "none" if value is None else str(value)
