"""State gives its memory back when Python collects it, which may be while the compiler is at work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from braid.jit.runtime import COMPILED

#: A compiler that is called by a finalizer while it is at work ends the process.
CODE = """
import braid
from braid.operators.core.kernels import node_sets
from braid.operators.group.kernels import groups

engine = braid.Engine()
engine.execute('''
    CREATE STREAM A (k INT, t BIGINT) TIME t; CREATE STREAM B (k INT, t BIGINT) TIME t;
    CREATE QUERY pairs AS SELECT Istream(A.k) FROM A [Rows 2], B [Rows 2] WHERE A.k = B.k;
    CREATE QUERY sums AS SELECT k, count(*) AS n FROM A [Range 5] GROUP BY k;
''')
engine.process({"A": {"k": [1], "t": [1]}})
print(bool(groups.release_all.loaded), bool(node_sets.empty_pool.loaded))
"""


@pytest.mark.parametrize("rules", ["all", "none"])
def test_what_finalizers_call_is_loaded(rules: str) -> None:
    if not COMPILED:
        return
    code = CODE.replace("Engine()", f"Engine(rules={rules!r}, constraints='off')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]
