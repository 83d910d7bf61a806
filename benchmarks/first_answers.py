"""One query of every kind, with events that it has an answer to: how long is the wait for the first?

A process gets the statements, the query and an Arrow file, and reports how long it took from its first
line to the answer. To read rows from an Arrow file costs nothing; a table made of Python lists would import
pandas.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from pyarrow import feather

_STREAMS = """
CREATE STREAM A (k STRING, x DOUBLE, n BIGINT, t BIGINT) TIME t;
CREATE STREAM B (k STRING, x DOUBLE, n BIGINT, t BIGINT) TIME t;
CREATE STREAM C (k STRING, x DOUBLE, n BIGINT, t BIGINT) TIME t;
CREATE STREAM D (id STRING, doc XML, t BIGINT) TIME t;
"""
_ROWS = {
    "k": ["a", "b", "a", "b", "a", "a"],
    "x": [1.0, 2.0, 3.0, 1.5, 5.0, 6.0],
    "n": [1, 2, 3, 4, 5, 6],
    "t": [1, 2, 3, 4, 5, 6],
}
_DOCUMENTS = {
    "id": ["d1", "d2"],
    "doc": [
        "<book><author>Ayers</author><title>RSS</title></book>",
        "<blog><author>Ayers</author><title>RSS</title></blog>",
    ],
    "t": [1, 5],
}


#: For each kind of query the statements that make it.
KINDS: Mapping[str, str] = {
    "selection": "CREATE QUERY q AS SELECT * FROM FILTER{x > 1.2 AND k = 'a'} A;",
    "projection": "CREATE QUERY q AS SELECT k, x * 2 + n AS y FROM FILTER{n > 2} A;",
    "pattern": "CREATE QUERY q AS SELECT k, x_1 AS low, x AS high "
    "FROM A NEXT{$2.k = $1.k AND $2.x > 1.05 * $1.x AND DUR <= 5} B;",
    "fold": "CREATE QUERY q AS SELECT * FROM FILTER{DUR >= 2} "
    "(A FOLD{$1.k = $2.k, $2.x > $.x, } A);",
    "window join": "CREATE QUERY q AS SELECT A.k, B.n FROM A [Range 10], B [Range 10] WHERE A.k = B.k;",
    "shared join": "CREATE QUERY q AS SELECT A.k, B.n FROM A [Range 3], B [Range 3] WHERE A.k = B.k; "
    "CREATE QUERY r AS SELECT A.k, B.n FROM A [Range 8], B [Range 2] WHERE A.k = B.k;",
    "join with constraints": "CREATE CONSTRAINT one ON A (n) KEY; "
    "CREATE CONSTRAINT both ON B (n) REFERENCES A (n) WITHIN 3 ROWS; "
    "CREATE QUERY q AS SELECT Istream(A.k, B.x) FROM A [Rows 100], B [Rows 100] "
    "WHERE A.n = B.n;",
    "group": "CREATE QUERY q AS SELECT k, count(*) AS n, avg(x) AS mean, max(x) AS most "
    "FROM A [Range 5] GROUP BY k;",
    "selection join": "CREATE QUERY q AS SELECT * FROM A [Range 10], B [Range 10] "
    "WHERE A.k = B.k AND A.x < 4 AND B.n BETWEEN 2 AND 5;",
    "detect": "CREATE QUERY q AS DETECT Found FROM A [Rows 10], B [Rows 10], C [Rows 10] "
    "WHERE A.k = B.k AND B.n = C.n BATCH 2 WITHIN 100;",
    "xml join": "CREATE QUERY q AS D//book->x1[./author->x2][./title->x3] "
    "FOLLOWED BY{x2 = x5 AND x3 = x6, 24} D//blog->x4[./author->x5][./title->x6];",
    "sametime": "CREATE QUERY q AS SELECT * FROM SAMETIME{ARG_MAX(x)} (FILTER{n > 1} A);",
}

#: What a process does in process, and on Spark: the first batch includes the start of Python workers.
_IN_PROCESS = """
import time
started = time.perf_counter()
import braid
imported = time.perf_counter()
import json, sys
import pyarrow as pa
text, folder = sys.argv[1:]
engine = braid.Engine()
engine.execute(text)
with pa.memory_map(folder + "/rows") as rows, pa.memory_map(folder + "/documents") as documents:
    rows, documents = pa.ipc.open_file(rows).read_all(), pa.ipc.open_file(documents).read_all()
engine.process({name: documents if name == "D" else rows for name in engine.streams})
answers = engine.stats["matches"]
engine.finish()
answers += engine.stats["matches"]
answered = time.perf_counter()
print(json.dumps({
    "import_s": imported - started,
    "answer_s": answered - started,
    "answers": answers,
    "compiled": float("numba" in sys.modules),
}))
"""
_ON_SPARK = """
import json, sys, time
import braid
from braid.spark import MemorySink, local_spark
text, folder = sys.argv[1:]
spark = local_spark(2, memory="1g")
spark.sparkContext.setLogLevel("OFF")
session = braid.Session(spark)
session.execute(text)
for name in "ABCD":
    files = folder + ("/d" if name == "D" else "/r")
    columns = "id STRING, doc STRING" if name == "D" else "k STRING, x DOUBLE, n BIGINT"
    session.stream(name, spark.readStream.schema(columns + ", t BIGINT").parquet(files))
kept = MemorySink()
started = time.perf_counter()
running = session.start({"matches": kept}, checkpoint=folder + "/checkpoint", trigger="available now")
running.await_termination()
print(json.dumps({"answer_s": time.perf_counter() - started, "answers": len(kept.rows)}))
"""


def first_answer(kind: str, cache: Path, *, on_spark: bool = False, packs: bool = True) -> Any:
    """Start a process that answers a query of a kind, with this cache directory.

    Without `packs` there are no kernels that were compiled ahead.
    """
    environment = {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "BRAID_CACHE_DIR": str(cache),
        "BRAID_PACKS": "" if packs else "off",
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("rows", _ROWS), ("documents", _DOCUMENTS)):
            table = pa.table(rows)
            feather.write_feather(table, f"{folder}/{name}", compression="uncompressed")
            os.mkdir(f"{folder}/{name[0]}")
            parquet.write_table(table, f"{folder}/{name[0]}/0.parquet")
        program = _ON_SPARK if on_spark else _IN_PROCESS
        done = subprocess.run(
            [sys.executable, "-c", program, _STREAMS + KINDS[kind], folder],
            env=os.environ | environment,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"{kind}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
