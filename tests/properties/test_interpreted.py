"""A lane with the compiler off: the kernels as plain Python must obey the law as well.

It tells mistakes of the kernels from mistakes of the compiler, and catches what only compiled
code would forgive: here every access to memory is checked against what is allocated
(`jit/allocations.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LANE = [
    "tests/properties/test_law.py::test_any_split_and_restart",
    "tests/properties/test_law.py::test_disjunctions",
    "tests/properties/test_document_law.py::test_documents_obey_the_law",
    "tests/properties/test_expressions.py::test_projection",
    "tests/properties/test_expressions.py::test_functions_of_integers",
]
#: What has nothing to do with the hash that collides.
ONCE = [
    "tests/properties/test_buffers.py",
    "tests/properties/test_detection.py",
    "tests/properties/test_every_function.py",
    "tests/properties/test_selection_joins.py",
    "tests/properties/test_join_graphs.py::test_monitored_joins_of_any_graph_make_nothing_up",
    "tests/properties/test_live.py",
]


#: Each runs in a process of its own, so that several of them run at once.
RUNS = {
    "good": [LANE, *([each] for each in ONCE)],
    "constant": [LANE],
}


@pytest.mark.parametrize(
    ("hashes", "tests"), [(hashes, tests) for hashes, runs in RUNS.items() for tests in runs]
)
def test_with_the_compiler_off(hashes: str, tests: list[str]) -> None:
    """Once more with a hash that always collides: then only comparisons tell values apart."""
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "HYPOTHESIS_PROFILE": "few",
        "BRAID_TEST_HASHES": hashes,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
