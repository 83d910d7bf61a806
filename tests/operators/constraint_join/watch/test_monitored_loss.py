"""Monitored joins: what they lose is little, or is estimated, told and stopped."""

from __future__ import annotations

from math import sqrt
from typing import Any

import pytest

import braid

STREAMS = """
CREATE STREAM Orders (id BIGINT, c BIGINT, t BIGINT) TIME t;
CREATE STREAM Status (id BIGINT, state BIGINT, t BIGINT) TIME t;
"""
JOIN = "Select O.id, O.c, S.state From Orders {0} As O, Status {1} As S Where O.id = S.id"
#: Time, order (0) or status (1), id, state.
Event = tuple[int, int, int, int]


def statuses(count: int, delay: int, state: int = 2, every: int = 1) -> list[Event]:
    """Orders with a first status at once, and of each of so many another one later."""
    events = [(10 * i, 0, i, 0) for i in range(count)]
    events += [(10 * i + 3, 1, i, 1) for i in range(count)]
    return sorted(events + [(10 * i + delay, 1, i, state) for i in range(0, count, every)])


class Run:
    def __init__(
        self, mode: str, text: str, watching: dict[str, Any] | None = None, streams: str = STREAMS
    ) -> None:
        self.engine = braid.Engine(idle_timeout=None, constraints=mode, watching=watching)
        self.engine.execute(streams)
        self.engine.query("q", f"{text} PUBLISH R")
        self.found = 0

    def take(self, events: list[Event], batch: int = 2000) -> None:
        for low in range(0, len(events), batch):
            part = events[low : low + batch]
            own = [[e for e in part if e[1] == stream] for stream in (0, 1)]
            columns = {
                name: {
                    "id": [e[2] for e in rows],
                    last: [e[3] for e in rows],
                    "t": [e[0] for e in rows],
                }
                for name, last, rows in zip(("Orders", "Status"), ("c", "state"), own, strict=True)
            }
            self.found += self.engine.process(columns)["R"].num_rows

    @property
    def detail(self) -> dict[str, Any]:
        mops = self.engine.explain().to_dict()["mops"]
        (join,) = (mop for mop in mops if "constraint" in mop["does"])
        detail: dict[str, Any] = join["detail"]
        return detail

    @property
    def told(self) -> list[str]:
        return [notice.message for notice in self.engine.notices if notice.code == "W206"]

    def whole(self, events: list[Event]) -> int:
        self.take(events)
        self.found += self.engine.finish()["R"].num_rows
        return self.found


FILTERED = JOIN + " And S.state = 2"


@pytest.mark.parametrize("delay", [13, 300, 990, 3_000])
@pytest.mark.parametrize(
    "windows", [("[Range 5000]", "[Range 1000]"), ("[Rows 900]", "[Rows 900]")]
)
def test_a_status_that_is_refused_is_not_the_only_one(delay: int, windows: tuple[str, str]) -> None:
    """Orders have two statuses, of which WHERE keeps the second."""
    text, events = FILTERED.format(*windows), statuses(8_000, delay)
    expected = Run("off", text).whole(events)
    assert expected > 7_000
    assert Run("monitored", text, {"worth": 0}).whole(events) == expected
    assert Run("monitored", text).whole(events) == expected


@pytest.mark.parametrize("every", [1, 2, 10])
def test_statuses_that_come_again_late(every: int) -> None:
    """Of a half of the orders the only status is kept; of some others it is refused at first, and comes
    again when 300 others have come. Nothing is believed before it could have come again."""
    text = FILTERED.format("[Range 5000]", "[Range 1000]")
    events = [
        e for e in statuses(8_000, 3_000, every=every) if e[1] == 0 or e[2] % 4 >= 2 or e[3] == 1
    ]
    events = [(t, s, i, 2 if s == 1 and i % 4 < 2 else state) for t, s, i, state in events]
    expected = Run("off", text).whole(events)
    assert Run("monitored", text, {"worth": 0}).whole(events) == expected


def test_a_key_that_holds_lets_rows_go_that_wait_for_a_refused_one() -> None:
    """Each order has one status; whoever waits for one that is refused leaves."""
    text = FILTERED.format("[Range 50000]", "[Range 1000]")
    events = [e for e in statuses(8_000, 3_000) if e[1] == 0 or e[3] == 1]
    events = [(t, s, i, 2 if s == 1 and i % 4 == 0 else state) for t, s, i, state in events]
    run = Run("monitored", text, {"worth": 0})
    run.take(events)
    assert run.found > 1_990
    assert run.detail["inputs"][0]["rows"] < 2_500, "5,000 are in the window"
    assert not run.told


def changing(steady: int, then: int) -> list[Event]:
    """Each order has one status; later each has a second one as well."""
    events = [e for e in statuses(steady, 500) if e[1] == 0 or e[3] == 1]
    later = [(t + 10 * steady, s, i + steady, state) for t, s, i, state in statuses(then, 500)]
    return sorted(events + later)


@pytest.mark.parametrize("sample", [0.01, 0.05])
def test_the_estimate_is_near_what_is_lost(sample: float) -> None:
    text, events = JOIN.format("[Range 5000]", "[Range 1000]"), changing(5_000, 15_000)
    expected = Run("off", text).whole(events)
    run = Run("monitored", text, {"worth": 0, "loss": 1, "sample": sample})
    run.take(events)
    lost, estimated = expected - run.found, run.detail["lost"]
    assert lost > 100
    assert abs(estimated - lost) < 5 * sqrt(lost / sample)
    assert not run.told, "all may be lost"


def test_too_much_lost_is_told_once_and_given_up() -> None:
    text, events = JOIN.format("[Range 5000]", "[Range 1000]"), changing(5_000, 30_000)
    expected = Run("off", text).whole(events)
    run = Run("monitored", text, {"worth": 0, "sample": 0.05})
    half = len(events) // 2
    run.take(events[:half])
    (message,) = run.told
    assert "a row of Orders has one result" in message
    assert "and 1.0% may be lost" in message
    assert "the join no longer uses it" in message
    assert run.detail["lossy"]
    run.engine = braid.Engine.restore(run.engine.snapshot())
    before = run.found
    run.take(events[half:])
    run.found += run.engine.finish()["R"].num_rows
    assert not run.told, "it has been told"
    assert run.detail["lossy"]
    rest = Run("off", text)
    rest.take(events[:half])
    assert run.found - before == expected - rest.found, "nothing is lost after that"


def test_relations_that_come_and_go() -> None:
    """The same of partitions, whose rows come and go."""
    window = "[Partition By id Rows 1]"
    text, events = JOIN.format(window, window), changing(5_000, 15_000)
    expected = Run("off", text).whole(events)
    run = Run("monitored", text, {"worth": 0, "loss": 1, "sample": 0.05})
    run.take(events)
    lost, estimated = expected - run.found, run.detail["lost"]
    assert lost > 300
    assert abs(estimated - lost) < 5 * sqrt(lost / 0.05)
    run = Run("monitored", text, {"worth": 0, "sample": 0.05})
    run.take(events)
    assert len(run.told) == 1
    assert expected - run.found <= lost


def test_three_streams_that_lose_two_rows_of_a_result() -> None:
    """A result that needs two rows which were dropped counts for what it stands for."""
    streams = STREAMS + "CREATE STREAM Bills (id BIGINT, b BIGINT, t BIGINT) TIME t;"
    text = """Select O.c, S.state, B.b From Orders [Range 9000] As O, Status [Range 9000] As S,
              Bills [Range 9000] As B Where O.id = S.id And O.id = B.id"""
    found = {}
    for mode in ("off", "monitored"):
        run = Run(mode, text, {"worth": 0, "loss": 1, "sample": 0.2}, streams)
        total = 0
        for low in range(0, 20_000, 1_000):
            ids = list(range(low, low + 1_000))
            times = [10 * i for i in ids]
            bills = [(10 * i + 5, i) for i in ids]
            if low >= 5_000:
                bills += [(10 * i + 3_000, i) for i in ids]
            bills = sorted(b for b in bills if b[0] < 10 * (low + 1_000))
            total += run.engine.process(
                {
                    "Orders": {"id": ids, "c": ids, "t": times},
                    "Status": {"id": ids, "state": ids, "t": [t + 2 for t in times]},
                    "Bills": {
                        "id": [i for _, i in bills],
                        "b": ids[:1] * len(bills),
                        "t": [t for t, _ in bills],
                    },
                }
            )["R"].num_rows
        found[mode] = (total, run.detail["lost"] if mode != "off" else 0)
    lost = found["off"][0] - found["monitored"][0]
    assert lost > 300
    assert 0.4 * lost < found["monitored"][1] < 2.5 * lost
