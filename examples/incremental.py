"""The engine, arrival by arrival: out-of-order events, a query that reads another, a snapshot.

python examples/incremental.py
"""

from __future__ import annotations

import datetime

import pyarrow as pa

import braid

SCHEMA = pa.schema(
    {"at": pa.timestamp("us", "UTC"), "Sensor": pa.string(), "Celsius": pa.float64()}
)

RULES = """
-- a sensor that warms by three degrees within a minute
CREATE QUERY warming AS
  SELECT Sensor, Celsius_1 AS before, Celsius AS after
  FROM Reading NEXT{$2.Sensor = $1.Sensor AND $2.Celsius >= $1.Celsius + 3 AND DUR <= 1min} Reading
  PUBLISH Warming;

-- two sensors that do so within five minutes
CREATE QUERY spreading AS
  SELECT Sensor_1 AS first, Sensor AS second
  FROM Warming NEXT{$2.Sensor <> $1.Sensor AND DUR <= 5min} Warming
  PUBLISH Spreading;
"""


def readings(*rows: tuple[int, str, float]) -> pa.Table:
    noon = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
    times = [noon + datetime.timedelta(seconds=second) for second, _, _ in rows]
    columns = [times, [name for _, name, _ in rows], [celsius for _, _, celsius in rows]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


ARRIVALS = [
    readings((0, "hall", 20.0), (5, "attic", 22.0)),
    readings((40, "hall", 24.0), (30, "attic", 22.5)),  # the second is 10 seconds behind: in time
    readings((50, "attic", 22.4), (70, "attic", 26.0), (130, "hall", 24.0)),
    readings((10, "hall", 50.0)),  # two minutes behind: late
]


def show(when: str, found: dict[str, pa.Table]) -> None:
    for name, table in found.items():
        for row in table.to_pylist():
            start, end = row.pop("start"), row.pop("end")
            print(f"{when}: {name} from {start:%H:%M:%S} to {end:%H:%M:%S} {row}")


def main() -> None:
    engine = braid.Engine()
    engine.stream("Reading", SCHEMA, time="at", lateness="30 seconds")
    engine.execute(RULES)
    for number, table in enumerate(ARRIVALS[:2], 1):
        show(f"arrival {number}", engine.process({"Reading": table}))

    state = engine.snapshot()  # goes to a disk, to another machine
    engine = braid.Engine.restore(state)

    for number, table in enumerate(ARRIVALS[2:], 3):
        show(f"arrival {number}", engine.process({"Reading": table}))
        if engine.late.num_rows:
            print(f"arrival {number}: late {engine.late.to_pylist()}")
    show("at the end", engine.finish())


if __name__ == "__main__":
    main()
