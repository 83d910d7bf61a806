"""The state of a shard apart from its m-ops: how it is saved and restored.

Pages: `meta` (JSON: how far time is, which arrays there are and how long they are), `roster` (the
queries), `chunk/<n>` (events that wait for their time), `mop/<signature>/<array>`, `strings/...`,
`carried/<n>`. Whoever stores pages verifies their checksums before they come here; what is read is
checked all the same, because correct checksums say who wrote it and not that it makes sense.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braid.engine.checksums import damaged, reading
from braid.engine.io.ingest import END, START
from braid.engine.io.ordering import Ordering, Progress
from braid.engine.state_pages import Pages, read_array
from braid.errors import CheckpointError
from braid.operators.core.base import State
from braid.operators.core.values import Carried, Values
from braid.plan.specs import Shape

#: The layout of saved state. A checkpoint of another one is refused.
STATE_FORMAT = 8

_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Meta:
    """The page `meta`."""

    rules: frozenset[str]
    #: How far each clock is.
    bounds: dict[str, int]
    #: The highest `end` of each stream, and when it was last active.
    progress: dict[str, tuple[int | None, int | None]]
    #: Number and channel of the events that wait.
    chunks: tuple[tuple[int, str], ...]
    next: int
    stamp: int
    #: The arrays of each m-op, and how many words each has.
    mops: dict[str, dict[str, int]]
    #: Strings, their bytes, and holes among them.
    strings: tuple[int, int, int]
    carried: int
    dedicated_joins: tuple[str, ...]
    #: The times that each stream has had: lowest, highest, highest of its first batch, batches.
    spans: dict[str, list[int]]
    #: m-ops and queries that have failed, each with the reason.
    failed: dict[str, dict[str, str]]

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "format": STATE_FORMAT,
                "rules": sorted(self.rules),
                "bounds": self.bounds,
                "progress": self.progress,
                "chunks": self.chunks,
                "next": self.next,
                "stamp": self.stamp,
                "mops": self.mops,
                "strings": self.strings,
                "carried": self.carried,
                "by_themselves": self.dedicated_joins,
                "spans": self.spans,
                "failed": self.failed,
            }
        ).encode()

    @staticmethod
    def of(pages: Mapping[str, bytes]) -> Meta:
        with reading("the page meta"):
            saved = json.loads(pages["meta"])
            _check_format(saved["format"])
            return Meta(
                frozenset(_text(rule) for rule in saved["rules"]),
                {_text(unit): _word(at) for unit, at in saved["bounds"].items()},
                {
                    _text(name): (_maybe_word(highest), _maybe_word(active))
                    for name, (highest, active) in saved["progress"].items()
                },
                tuple((_count(number), _text(channel)) for number, channel in saved["chunks"]),
                _count(saved["next"]),
                _word(saved["stamp"]),
                {
                    _text(signature): {_text(n): _count(size) for n, size in arrays.items()}
                    for signature, arrays in saved["mops"].items()
                },
                _three([_count(size) for size in saved["strings"]]),
                _count(saved["carried"]),
                tuple(_text(name) for name in saved["by_themselves"]),
                {_text(n): [_word(at) for at in span] for n, span in saved["spans"].items()},
                {
                    _text(kind): {_text(name): _text(why) for name, why in found.items()}
                    for kind, found in saved["failed"].items()
                },
            )

    def check_rules(self, rules: frozenset[str]) -> None:
        """State is found by what rules made of the operators: with others it would be lost."""
        changed = sorted(self.rules ^ rules)
        if changed:
            raise CheckpointError(
                "E423",
                f"the state was saved with other rules: {', '.join(changed)}",
                "use the same rules, or start with a new checkpoint",
            )


def save(
    pages: Pages,
    ordering: Ordering,
    values: Values,
    states: Mapping[str, State],
    rules: frozenset[str],
    dedicated_joins: Collection[str],
    spans: dict[str, list[int]],
    failed: dict[str, dict[str, str]],
    roster: bytes,
) -> None:
    """Put everything that a shard needs in order to go on."""
    strings = values.strings
    meta = Meta(
        rules,
        ordering.bounds,
        {n: (p.highest, p.active) for n, p in ordering.progress.items()},
        tuple((c.number, c.channel) for c in ordering.chunks),
        ordering.next_number,
        ordering.last_stamp,
        {
            s: {n: a.nbytes // 8 for n, a in arrays.items()}
            for s, arrays in states.items()
            if arrays
        },
        (strings.count, strings.size, len(strings.holes)),
        len(values.carried),
        tuple(sorted(dedicated_joins)),
        spans,
        failed,
    )
    pages.put("meta", meta.to_json())
    pages.put("roster", roster)
    for chunk in ordering.chunks:
        key = f"chunk/{chunk.number}"
        if not pages.keep(key):
            pages.put(key, _ipc(chunk.events.slice(chunk.released)))
    for signature, arrays in states.items():
        for name, array in arrays.items():
            pages.put_array(f"mop/{signature}/{name}", array)
    pages.put_array("strings/offsets", strings.offsets[: strings.count + 1])
    pages.put_array("strings/bytes", strings.pool[: strings.size])
    pages.put_array("strings/holes", strings.holes)
    for number, store in enumerate(values.carried.values()):
        pages.put(f"carried/{number}", _ipc(pa.record_batch([store.values], ["v"])))


def restore_time(ordering: Ordering, meta: Meta, *, resumed: bool) -> None:
    """How far streams are. `resumed`: nothing ran meanwhile, so no stream is idle by that."""
    ordering.bounds = dict(meta.bounds)
    ordering.progress = {
        name: Progress(highest, None if resumed else active)
        for name, (highest, active) in meta.progress.items()
    }
    ordering.next_number, ordering.last_stamp = meta.next, meta.stamp


def saved_events(
    pages: Mapping[str, bytes], meta: Meta
) -> Iterator[tuple[int, str, pa.RecordBatch]]:
    """The events that wait for their time, with number and channel."""
    for number, channel in meta.chunks:
        key = f"chunk/{number}"
        with reading(f"the page {key}"):
            events = _read_ipc(pages[key])
            for name in (START, END):
                if events.schema.field(name).type != pa.int64() or events[name].null_count:
                    raise damaged(f"times of {key} are no integers")
            ends = events[END].to_numpy()
            if (ends[1:] < ends[:-1]).any():
                raise damaged(f"events of {key} are not in order")
        yield number, channel, events


def check_events(events: pa.RecordBatch, shape: Shape, number: int) -> None:
    """Events that wait have the columns that are read of their stream."""
    found = {field.name: field.type for field in events.schema}
    for attribute in shape.schema:
        type_ = found.get(attribute.name)
        if type_ is not None and pa.types.is_dictionary(type_):
            type_ = type_.value_type
        if type_ != attribute.type:
            raise damaged(f"column {attribute.name} of chunk/{number} is {type_}")


def restore_values(pages: Mapping[str, bytes], meta: Meta, values: Values) -> None:
    """Strings, and values that are only carried."""
    count, size, holes = meta.strings
    word = np.dtype(np.int64)
    if count:
        offsets = read_array(pages, "strings/offsets", word, count + 1)
        data = read_array(pages, "strings/bytes", np.dtype(np.uint8), size)
        gaps = read_array(pages, "strings/holes", word, holes)
        with reading("the table of strings"):
            values.strings.load_pool(offsets, data, gaps)
    for number in range(meta.carried):
        with reading(f"the page carried/{number}"):
            array = _read_ipc(pages[f"carried/{number}"]).column(0)
        store = Carried(array.type)
        store.values = array
        values.carried[array.type] = store


def saved_states(pages: Mapping[str, bytes], meta: Meta) -> dict[str, State]:
    """The arrays of each m-op, each as long as it was."""
    word = np.dtype(np.int64)
    return {
        signature: {
            name: read_array(pages, f"mop/{signature}/{name}", word, size)
            for name, size in arrays.items()
        }
        for signature, arrays in meta.mops.items()
    }


def _check_format(found: object) -> None:
    if found != STATE_FORMAT:
        raise CheckpointError(
            "E420",
            f"the saved state has format {found}, this version reads {STATE_FORMAT}",
            "start with a new checkpoint, or use the version that wrote this one",
        )


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _read_ipc(page: bytes) -> pa.RecordBatch:
    """A batch whose offsets and codes are inside of its buffers."""
    batch = pa.ipc.open_stream(page).read_next_batch()
    batch.validate(full=True)
    return batch


# ---- what JSON has, with the type that it should have ----


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _word(value: object) -> int:
    if not isinstance(value, int) or not _LEAST <= value <= _MOST:
        raise TypeError(f"{value!r} is no integer of 64 bits")
    return value


def _count(value: object) -> int:
    if _word(value) < 0:
        raise ValueError(f"{value!r} is negative")
    return _word(value)


def _maybe_word(value: object) -> int | None:
    return None if value is None else _word(value)


def _three(sizes: list[int]) -> tuple[int, int, int]:
    first, second, third = sizes
    return first, second, third
