"""Unreadable documents: reports texts that a query cannot parse, in `rejected` and as a notice.

Ingest checks the documents of declared streams. Documents in published streams and in columns of
plain text are checked only by their readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa

from braid.algebra.schema import TICKS
from braid.algebra.types import BIGINT, TIMESTAMP
from braid.distribution.keys import split_channel
from braid.engine.executor import Executor
from braid.engine.io.ingest import REJECTED
from braid.engine.io.payload import to_json
from braid.errors import Notice
from braid.operators.core.roles import ReadsTexts, Unread

#: The code of the notice.
CODE = "W209"
#: The most readers of a stream that a message names.
_MOST_READERS = 3
_PUBLISHED = (
    "build them as SELECT <name>{x}</name>, which escapes values, "
    "or use xml_escape(x) inside concat"
)
_DECLARED = "declare the column as XML or JSON, so that Braid rejects such rows"


class UnreadableTexts:
    """The channels with unreadable texts."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def take(
        self, executor: Executor, units: Iterable[tuple[str, str]]
    ) -> tuple[list[tuple[str, pa.Table]], list[Notice]]:
        """The rows of `rejected` since this was last asked, by channel, and a notice for each channel
        that has not had any before.

        `units`: what the time of each m-op that reads documents counts.
        """
        found: dict[str, Counter[Unread]] = {}
        readers: dict[str, list[str]] = {}
        clocks: dict[str, str] = {}
        for signature, unit in units:
            logic = executor.logics[signature]
            assert isinstance(logic, ReadsTexts)
            unread, logic.unread = logic.unread, []
            for channel in dict.fromkeys(one.channel for one in unread):
                own = Counter(one for one in unread if one.channel == channel)
                # Several m-ops may read the same texts: each is rejected once.
                found[channel] = found.get(channel, Counter()) | own
                readers.setdefault(channel, []).append(signature)
                clocks[channel] = unit
        rejected = [(c, _table(c, list(own.elements()), clocks[c])) for c, own in found.items()]
        notices = []
        for channel, own in found.items():
            if channel not in self._reported:
                self._reported.add(channel)
                notices.append(_notice(executor, next(iter(own)), readers[channel]))
        return rejected, notices


def document_mops(executor: Executor) -> list[str]:
    """The m-ops that read documents and found unreadable texts."""
    return [s for s, o in executor.logics.items() if isinstance(o, ReadsTexts) and o.unread]


def _table(channel: str, unread: Sequence[Unread], unit: str) -> pa.Table:
    """Rows of `rejected`, with the time, and the text in its column."""
    time = BIGINT if unit == TICKS else TIMESTAMP
    times = [pa.array([t[n] for t in unread], BIGINT).cast(time) for n in (2, 3)]
    columns = {"start": times[0], "end": times[1]}
    rows: list[str] = []
    for number, one in enumerate(unread):
        text = {one.column: pa.array([one.text], pa.string())}
        row = {name: array.slice(number, 1) for name, array in columns.items()}
        rows += to_json(pa.table({**row, **text})).to_pylist()
    stream = split_channel(channel)[0]
    return pa.table(
        {
            "stream": pa.array([stream] * len(unread), pa.string()),
            "reason": pa.array([one.reason for one in unread], pa.string()),
            "row": pa.array(rows, pa.string()),
        },
        schema=REJECTED,
    )


def _notice(executor: Executor, first: Unread, mops: Sequence[str]) -> Notice:
    stream = split_channel(first.channel)[0]
    readers = _readers(executor, mops)
    publisher = _publisher(executor, first.channel)
    message = (
        f"texts in {stream}.{first.column} are not documents: the first because "
        f"{first.reason}; {', '.join(readers)} did not see them, `rejected` has them; "
        f"{_DECLARED if publisher is None else _PUBLISHED}"
    )
    return Notice(CODE, publisher or readers[0], message)


def _readers(executor: Executor, mops: Sequence[str]) -> list[str]:
    found: list[str] = []
    for admitted, rows in executor.registry.living():
        if not {stage.mop for stage in admitted.route.stages}.isdisjoint(mops):
            if len(found) == _MOST_READERS:
                return [*found, "others"]
            found.append(executor.registry.id_of(admitted.first + int(rows[0])))
    return found or ["a query that reads it"]


def _publisher(executor: Executor, channel: str) -> str | None:
    """A query that publishes into a stream; None if the stream is declared."""
    for admitted, rows in executor.registry.living():
        if any(exit_.stream == channel for exit_ in admitted.route.exits):
            return executor.registry.id_of(admitted.first + int(rows[0]))
    return None
