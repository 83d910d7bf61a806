"""One keyed two-step pattern in process, against a NumPy pass over the same columns.

The pass compares each quote with the one before it (name, price, time), which reads every
column once and does about the arithmetic of the pattern without remembering anything: what
a machine can do at best with these columns. Braid gets the names as texts, the pass as numbers.
Both run on one core. The answer is checked against a plain loop over the quotes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.engines import use_one_core
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size
from benchmarks.workloads import GAIN, SCHEMA, answer_of, expected_jumps, pattern, quotes

SMALL = {
    "events": 200_000,
    "names": 1_000,
    "noise": 0.015,
    "seed": 1,
    "within": "10 s",
    "within_us": 10_000_000,
    "batch": 50_000,
    "checked_names": 1_000,
}
FULL = SMALL | {
    "events": 10_000_000,
    "names": 10_000,
    "within": "1 min",
    "within_us": 60_000_000,
    "batch": 1_000_000,
    "checked_names": 500,
}


class Braid:
    """The whole way of an in-process engine: tables in, tables out."""

    def __init__(self, size: Size) -> None:
        use_one_core()
        self.size = size
        data = quotes(size)
        steps = range(0, len(data), size["batch"])
        self.events = len(data)
        self.tables = [data.table(start, start + size["batch"]) for start in steps]

    def prepare(self) -> Prepared:
        started = time.perf_counter()
        engine = self.engine()
        registered = time.perf_counter()
        engine.process({"Stock": self.tables[0].slice(0, 1_000)})
        engine.finish()
        return Prepared(time.perf_counter() - registered, registered - started)

    def engine(self) -> Any:
        import braid

        engine = braid.Engine(instance_budget=2 * self.size["events"])
        engine.stream("Stock", SCHEMA, time="ts")
        engine.query("jump", pattern(self.size["within"]))
        return engine

    def measure(self) -> Measured:
        engine = self.engine()
        found = []
        started = time.perf_counter()
        for table in self.tables:
            found.append(engine.process({"Stock": table})["Jump"])
        found.append(engine.finish()["Jump"])
        seconds = time.perf_counter() - started
        extra, state_bytes = self.state()
        extra["matches"] = sum(table.num_rows for table in found)
        return Measured(seconds, self.events, answer_of(found, self.size), state_bytes, extra)

    def state(self) -> tuple[dict[str, float], int]:
        """Counted while instances are alive: before the end of the input lets go of them."""
        engine = self.engine()
        for table in self.tables[:2]:
            engine.process({"Stock": table})
        instances, size = engine.stats["instances"], engine.stats["state_bytes"]
        return {"instances": instances, "bytes_per_instance": size / max(1, instances)}, size

    def close(self) -> None:
        pass


class NumpyPass:
    def __init__(self, size: Size) -> None:
        use_one_core()
        self.size = size
        self.data = quotes(size)
        self.answer = expected_jumps(self.data, size)

    def prepare(self) -> Prepared:
        self.once()
        return Prepared()

    def once(self) -> int:
        data, within = self.data, self.size["within_us"]
        same = data.codes[1:] == data.codes[:-1]
        risen = data.price[1:] > GAIN * data.price[:-1]
        soon = data.time[1:] - data.time[:-1] <= within
        return int(np.count_nonzero(same & risen & soon))

    def measure(self) -> Measured:
        started = time.perf_counter()
        self.once()
        return Measured(time.perf_counter() - started, len(self.data), self.answer)

    def close(self) -> None:
        pass


_IMPORT = """
import time; started = time.perf_counter()
import braid
print(time.perf_counter() - started)
"""
_COMPILE = """
import json, sys, time
import lark, numba, pyarrow.compute
import braid
from benchmarks.workloads import SCHEMA, pattern, quotes
size = json.loads(sys.argv[1])
table = quotes(size).table()
started = time.perf_counter()
engine = braid.Engine()
engine.stream("Stock", SCHEMA, time="ts")
engine.query("jump", pattern(size["within"]))
engine.process({"Stock": table})
engine.finish()
print(time.perf_counter() - started)
"""


def fresh_times(size: Size) -> dict[str, float]:
    """Seconds to import Braid and to get a first result, each in a process of its own.

    Compile times are from making the engine to its first result: they contain the kernels, which
    are compiled when they are first imported, but not the import of the compiler itself. The
    first run has an empty cache, the second finds what the first has left.
    """
    tiny = json.dumps({**size, "events": 1_000, "names": 10})
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"NUMBA_CACHE_DIR": cache}
        return {
            "import_s": _fresh(_IMPORT, tiny, env),
            "first_compile_s": _fresh(_COMPILE, tiny, env),
            "cached_compile_s": _fresh(_COMPILE, tiny, env),
        }


def _fresh(code: str, argument: str, env: dict[str, str]) -> float:
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", code, argument],
        env=env | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


CASE = Case(
    name="pattern_kernel",
    about="a keyed two-step pattern in process, against a NumPy pass over the same columns",
    sizes={"small": SMALL, "full": FULL},
    variants={"numpy_pass": NumpyPass, "braid": Braid},
    ratios=(Ratio("numpy_pass/braid", of="time", over="numpy_pass", by="braid"),),
    once=fresh_times,
    env={"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
)
