"""The checkpoint: the files that Braid writes beside Spark's, and the checks before resuming.

`<checkpoint>/braid/plan.json` has the version of the format, the streams, the number of shards,
and where every query was placed. Placements are kept over restarts, because that is where the
state is; what cannot be kept is refused with what differs and what to do.

Queries are written as one packed table (id, digest, number of a placement): a million of them
take some megabytes. The digest is of the template and of the query's constants, so that a query
is the same one if it means the same, however it is written.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.constraints import Constraint
from braid.algebra.streams import Stream, sharable_classes
from braid.algebra.templates import Members, Template
from braid.algebra.types import sql_name
from braid.distribution.distribution import Distribution, EarlierPlacements, Placement, Standing
from braid.distribution.hashing import hash_values, mix
from braid.engine.checksums import checksum, damaged, reading
from braid.engine.constraints import constraint_from_json, constraint_to_json
from braid.engine.options import Options, ShardOptions
from braid.errors import CheckpointError

#: Changes whenever an older Braid's state or routing could be misread.
FORMAT = 5

#: The first format with a checksum.
_CHECKED = 4

_PLAN = "the checkpoint's braid/plan.json"
_ANEW = (
    "restore an older copy of the checkpoint, "
    "or start with a new checkpoint directory (the sources are then read from their start)"
)

_NEW = "start with a new checkpoint directory (the sources are then read from their start)"

_QUERIES = pa.schema([("id", pa.string()), ("digest", pa.uint64()), ("placement", pa.int32())])


@dataclass(frozen=True)
class SavedPlan:
    """A distribution as it is written down."""

    shards: int
    stateful: bool
    #: Whether the pipeline takes changes while it runs: that is a source of its own.
    control: bool
    streams: Mapping[str, Mapping[str, Any]]
    standing: frozenset[Standing]
    placements: tuple[Placement, ...]
    #: Every query with its digest and the number of its placement.
    queries: pa.Table
    options: Options = Options()  # noqa: RUF009 -- frozen
    #: The constraints that were declared, by name.
    declared: tuple[Constraint, ...] = ()
    #: The streams of each source, in Spark's order; None if unknown.
    sources: list[list[str]] | None = None
    #: Whether beats are a source of the pipeline (see `beats`).
    beats: bool = False

    @staticmethod
    def of(
        distribution: Distribution,
        *,
        stateful: bool = True,
        control: bool = False,
        options: ShardOptions = ShardOptions(),  # noqa: B008 -- frozen
        sources: Iterable[tuple[str, ...]] | None = None,
        beats: bool = False,
    ) -> SavedPlan:
        known: dict[Placement, int] = {}
        digester = Digester()
        parts = []
        for members, placement in distribution.placed():
            number = known.setdefault(placement, len(known))
            columns = [members.ids, digester(members), np.full(len(members), number, np.int32)]
            parts.append(pa.table(columns, schema=_QUERIES))
        return SavedPlan(
            distribution.shards,
            stateful,
            control,
            described(distribution.streams),
            distribution.filled if control else distribution.standing,
            tuple(known),
            pa.concat_tables(parts) if parts else _QUERIES.empty_table(),
            options.user,
            in_order_of_names(options.declared),
            None if sources is None else in_order(sources),
            beats,
        )

    def to_json(self) -> str:
        said = {
            "format": FORMAT,
            "shards": self.shards,
            "stateful": self.stateful,
            "control": self.control,
            "streams": self.streams,
            "standing": sorted(self.standing, key=str),
            "placements": [[p.mode, p.shard, p.routes] for p in self.placements],
            "queries": _packed(self.queries),
            "options": self.options.to_json(),
            "declared": [constraint_to_json(constraint) for constraint in self.declared],
            "sources": self.sources,
            "beats": self.beats,
        }
        return json.dumps({**said, "checksum": _checksum(said)}, indent=1)

    @staticmethod
    def from_json(text: str) -> SavedPlan:
        with reading(_PLAN, _ANEW):
            data = json.loads(text)
            _check_plan(data)
            return SavedPlan(
                data["shards"],
                data["stateful"],
                data["control"],
                data["streams"],
                frozenset((name, shard) for name, shard in data["standing"]),
                tuple(
                    Placement(mode, tuple(tuple(r) for r in routes), shard)
                    for mode, shard, routes in data["placements"]
                ),
                _unpacked(data["queries"]),
                Options.from_json(data["options"]),
                tuple(constraint_from_json(constraint) for constraint in data["declared"]),
                data["sources"],
                data["beats"],
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

    def check_sources(self, sources: Iterable[tuple[str, ...]]) -> None:
        """Refuse other sources of the same streams: Spark knows sources by number."""
        now = in_order(sources)
        if self.sources in (None, now):
            return
        assert self.sources is not None
        then, today = (", ".join(" + ".join(names) for names in s) for s in (self.sources, now))
        raise CheckpointError(
            "E412",
            f"the checkpoint was written with other sources: {then} then, {today} now",
            f"give the streams their DataFrames as they were, or {_NEW}",
        )

    def check_control(self, control: bool) -> None:
        """Refuse to add or to leave out the stream of changes: Spark knows sources by number."""
        if control != self.control:
            then, now = ("with", "without") if self.control else ("without", "with")
            raise CheckpointError(
                "E412",
                f"the checkpoint was written {then} a control stream, this session is {now} one",
                f"start it {then} session.control(...), or {_NEW}",
            )

    def check_constraints(self, options: ShardOptions) -> None:
        """Refuse other constraints: by them it was decided what joins still have."""
        differences = constraint_differences(self.declared, options.declared)
        if self.options.constraints is not options.user.constraints:
            then, now = self.options.constraints.value, options.user.constraints.value
            differences.insert(0, f"constraints were {then} then, are {now} now")
        if not differences:
            return
        raise CheckpointError(
            "E316",
            "the checkpoint was written with other constraints:\n    " + "\n    ".join(differences),
            f"declare them as they were, or {_NEW}",
        )

    def check_state(self, distribution: Distribution) -> None:
        """Refuse to add the first query with state to a pipeline that has no shards."""
        if not self.stateful and not distribution.is_stateless:
            names = [
                name
                for component in distribution.components
                if component.mode != "spread"
                for name in component.some_ids(5)[0]
            ]
            raise CheckpointError(
                "E415",
                f"the checkpoint has queries without state, but {', '.join(names[:5])} needs some",
                _NEW,
            )

    def kept(self, groups: Iterable[Members]) -> EarlierPlacements:
        """The placements of queries that are still there and mean the same."""
        ids, at, same = self._compared(groups)
        rows = pa.array(np.flatnonzero(same), pa.int64())
        numbers = self._column("placement")[at[same]].astype(np.int64)
        return EarlierPlacements(ids.take(rows), numbers, self.placements)

    def changed(self, groups: Iterable[Members]) -> frozenset[str]:
        """Queries that have kept their id and mean something else."""
        ids, at, same = self._compared(groups)
        rows = pa.array(np.flatnonzero((at >= 0) & ~same), pa.int64())
        return frozenset(ids.take(rows).to_pylist())

    def _compared(
        self, groups: Iterable[Members]
    ) -> tuple[pa.Array, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The ids there are now, the row of each here (-1: none), whether it means the same."""
        digester = Digester()
        parts, digests = [pa.array([], pa.string())], [np.empty(0, np.uint64)]
        for members in groups:
            parts.append(members.ids)
            digests.append(digester(members))
        ids = pa.concat_arrays(parts)
        known = self.queries.column("id").combine_chunks()
        found = pc.index_in(ids, value_set=known).fill_null(-1)
        at = found.to_numpy(zero_copy_only=False).astype(np.int64)
        same = at >= 0
        same[same] = self._column("digest")[at[same]] == np.concatenate(digests)[same]
        return ids, at, same

    def _column(self, name: str) -> npt.NDArray[Any]:
        column: npt.NDArray[Any] = self.queries.column(name).to_numpy()
        return column

    def check(self, distribution: Distribution) -> None:
        """Refuse a distribution that looks for the state of a query where it is not.

        `Session.start` keeps placements, so this holds there. It is the only guard where the
        pipeline is started by the user's own `writeStream`.
        """
        self.check_frame(distribution.streams, distribution.shards)
        kept = self.kept(members for members, _ in distribution.placed())
        for members, placement in distribution.placed():
            for part, was in kept.split(members):
                if was is not None and was != placement:
                    raise CheckpointError(
                        "E414",
                        f"the checkpoint has the state of query '{part.ids[0]}' in another place",
                        f"use Session.start, which keeps queries where they are, or {_NEW}",
                    )


class Digester:
    """64 bits for each query that say what it means: a hash of its template and constants."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[object, bytes]] = {}

    def __call__(self, members: Members) -> npt.NDArray[np.uint64]:
        first = int.from_bytes(self._template(members.template)[:8], "little")
        words = np.full(len(members), first, np.uint64)
        for column in members.values:
            words = mix(words ^ hash_values(column))
        return words

    def _template(self, template: Template) -> bytes:
        whole = hashlib.sha256(repr(template.types).encode())
        if template.mode is not None:
            whole.update(template.mode.value.encode())
        for output in template.outputs:
            whole.update(self._node(output.node))
            whole.update(repr(output.publish).encode())
        return whole.digest()

    def _node(self, node: object) -> bytes:
        """Templates that differ in the published name only share their nodes."""
        known = self._nodes.get(id(node))
        if known is None:
            known = (node, hashlib.sha256(repr(node).encode()).digest())
            self._nodes[id(node)] = known
        return known[1]


def _packed(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return base64.b64encode(sink.getvalue()).decode()


def _unpacked(text: str) -> pa.Table:
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


def _checksum(said: Mapping[str, Any]) -> str:
    return checksum(_PLAN, json.dumps(said).encode()).hex()


def _check_plan(data: Any) -> None:
    """Refuse what is not as it was written, and what another version wrote."""
    own = {name: value for name, value in data.items() if name != "checksum"}
    is_intact = data.get("checksum") == _checksum(own)
    found = data.get("format")
    if not is_intact and not (isinstance(found, int) and 0 < found < _CHECKED and own == data):
        raise damaged(f"{_PLAN} does not have the checksum that it was saved with", _ANEW)
    if found != FORMAT:
        raise CheckpointError(
            "E411",
            f"the checkpoint has format {found}, this version of Braid writes format {FORMAT}",
            f"run it with the version of Braid that wrote it, or {_NEW}",
        )


def in_order(sources: Iterable[tuple[str, ...]]) -> list[list[str]]:
    """Sources by their streams, in the order in which Spark gets them."""
    return [list(streams) for streams in sorted(sources)]


def described(streams: Mapping[str, Stream]) -> dict[str, dict[str, Any]]:
    """What of the streams' declarations the state depends on; lateness may change."""
    classes = sharable_classes(streams)
    return {
        name: {
            "columns": [[a.name, sql_name(a.type)] for a in stream.columns],
            "time": list(stream.time),
            "sequence": stream.sequence,
            "sharable": list(classes.get(name, ())),
        }
        for name, stream in streams.items()
    }


def in_order_of_names(declared: Iterable[Constraint]) -> tuple[Constraint, ...]:
    return tuple(sorted(declared, key=lambda constraint: constraint.name))


def constraint_differences(saved: Iterable[Constraint], now: Iterable[Constraint]) -> list[str]:
    then, today = ({c.name: c for c in side} for side in (saved, now))
    found = []
    for name in sorted({*then, *today}):
        if then.get(name) != today.get(name):
            old, new = (c[name].describe() if name in c else "not declared" for c in (then, today))
            found.append(f"{name}: {old} then, {new} now")
    return found


def stream_differences(
    saved: Mapping[str, Mapping[str, Any]], streams: Mapping[str, Stream]
) -> list[str]:
    now = described(streams)
    found = [f"stream {name} is missing now" for name in saved if name not in now]
    found += [f"stream {name} is new" for name in now if name not in saved]
    for name in saved:
        if name in now:
            for part, new in now[name].items():
                old = saved[name][part]
                if old != new:
                    found.append(f"{part} of {name}: {_show(old)} then, {_show(new)} now")
    return found


def _show(value: Any) -> str:
    if isinstance(value, list):
        return "(" + ", ".join(" ".join(v) if isinstance(v, list) else str(v) for v in value) + ")"
    return "none" if value is None else str(value)
