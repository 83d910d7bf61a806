"""One alarm for each incident: what Istream of an aggregate gives, and the forms that give less."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import braid

COUNTED = "SELECT host, count(*) AS n FROM L [Range 300] GROUP BY host HAVING count(*) >= 5"
ONCE = "SELECT host FROM L [Range 300] GROUP BY host HAVING count(*) >= 5"
AT_EVENTS = """
  SELECT F.host, C.n
  FROM L [Now] AS F,
       (SELECT host, count(*) AS n FROM L [Range 300] GROUP BY host HAVING count(*) >= 5) AS C
  WHERE F.host = C.host
"""


def results(text: str, times: Sequence[int], batch: int) -> tuple[list[int], list[str]]:
    """When the query has a result, and the codes of its notices."""
    engine = braid.Engine(idle_timeout=None)
    engine.execute("CREATE STREAM L (host STRING, t BIGINT) TIME t")
    engine.query("q", text)
    found: list[int] = []
    for low in range(0, len(times), batch):
        part = times[low : low + batch]
        engine.process({"L": {"host": ["a"] * len(part), "t": list(part)}})
        found += [t for table in engine.results.values() for t in table.column("end").to_pylist()]
    engine.finish()
    found += [t for table in engine.results.values() for t in table.column("end").to_pylist()]
    return found, [notice.code for notice in engine.notices]


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_an_attack_of_thirty_failures(batch: int) -> None:
    attack = range(30)
    counted, warned = results(COUNTED, attack, batch)
    assert len(counted) == 51  # 26 as the count rises from 5 to 30, 25 as it falls from 29 to 5
    assert sum(t > 300 for t in counted) == 25
    assert warned == ["W210"]
    once, warned = results(ONCE, attack, batch)
    assert once == [4]
    assert warned == []
    at_events, warned = results(AT_EVENTS, attack, batch)
    assert at_events == list(range(4, 30))
    assert warned == []


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_a_second_incident_gives_a_second_result(batch: int) -> None:
    times = [*range(10), *range(1000, 1010)]
    assert results(ONCE, times, batch)[0] == [4, 1004]


def test_every_query_of_a_known_form_is_warned() -> None:
    engine = braid.Engine()
    engine.execute("CREATE STREAM L (host STRING, t BIGINT) TIME t")
    for n in range(4):
        engine.query(f"q{n}", COUNTED.replace("5", str(n + 5)))
    assert [(x.code, x.query) for x in engine.notices] == [("W210", f"q{n}") for n in range(4)]


def test_a_prepared_query_is_warned_once() -> None:
    engine = braid.Engine()
    engine.execute("CREATE STREAM L (host STRING, t BIGINT) TIME t")
    text = f"CREATE QUERY q FOR EACH (least BIGINT) AS {COUNTED.replace('>= 5', '>= :least')}"
    engine.query("q", text, {"least": [3, 4, 5]})
    assert [x.code for x in engine.notices] == ["W210"]
