"""A pattern over a table, in process: which quotes rose by 5%, and to what?

python examples/quickstart.py
"""

from __future__ import annotations

import pyarrow as pa

import braid

quotes = pa.table(
    {
        "ts": pa.array([1, 2, 3, 4, 5], pa.timestamp("s", "UTC")),
        "Name": ["IBM", "MSFT", "IBM", "MSFT", "IBM"],
        "Price": [90.0, 27.0, 92.0, 27.5, 97.0],
    }
)

JUMP = """
SELECT Name, Price_1 AS low, Price AS high
FROM (FILTER{Price < 100}(Stock))
  NEXT{$2.Name = $1.Name AND $2.Price > 1.05 * $1.Price AND DUR <= 1min} Stock
PUBLISH Jump
"""

if __name__ == "__main__":
    out = braid.run(JUMP, {"Stock": quotes}, time="ts")
    print(out["Jump"].to_pandas().to_string(index=False))
