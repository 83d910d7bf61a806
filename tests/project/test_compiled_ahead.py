"""All kernels that Python calls are compiled ahead, and a run writes nothing into the package."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import braid
from benchmarks.first_answers import _STREAMS, KINDS
from braid.jit import types
from braid.jit.compiled import build
from braid.jit.runtime import COMPILED, Entry, Kernel

pytestmark = pytest.mark.skipif(not COMPILED, reason="without the compiler nothing is compiled")

PACKAGE = Path(braid.__file__).parent
MODULES = {
    "braid." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts): ast.parse(
        path.read_text(encoding="utf-8")
    )
    for path in PACKAGE.rglob("*.py")
}


def is_for_the_compiler(node: ast.AST) -> bool:
    """Whether a function is a kernel, or defines instructions."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    names = {ast.unparse(each).partition("(")[0] for each in decorators}
    return bool(names & {"kernel", "intrinsic"})


def uses(node: ast.AST) -> Iterator[ast.expr]:
    """The names that Python evaluates in a module."""
    for child in ast.iter_child_nodes(node):
        if is_for_the_compiler(child):
            continue
        if isinstance(child, ast.Name | ast.Attribute) and isinstance(child.ctx, ast.Load):
            yield child
        yield from uses(child)


def called_by_python() -> set[str]:
    """The kernels of the package that a module names outside of kernels."""
    kernels = set(dict(build._kernels()))
    found = set()
    for module, tree in MODULES.items():
        names = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        for each in uses(tree):
            if isinstance(each, ast.Name):
                found.add(names.get(each.id, f"{module}.{each.id}"))
            elif isinstance(each.value, ast.Name):
                found.add(f"{names.get(each.value.id)}.{each.attr}")
    return found & kernels


def test_kernels_that_python_calls_are_compiled_ahead() -> None:
    """If this fails: run the tests that call the kernel with `--record-calls`."""
    ahead = {f"{each.function.__module__}.{each.function.__qualname__}" for each in build.wanted()}
    assert sorted(called_by_python() - ahead) == []


def test_recorded_calls_are_of_kernels_that_exist() -> None:
    """If this fails: run any test with `--record-calls`."""
    kernels = dict(build._kernels())
    signatures = [each for each in kernels.values() if isinstance(each, Entry)]
    assert len(build.wanted()) == len(signatures) + len(build.calls())
    for line in build.calls():
        name = line.partition("(")[0]
        assert isinstance(kernels[name], Kernel), line
        arguments = build._Parser(line[len(name) :]).arguments()
        assert arguments is not None
        assert f"{name}{types.Tuple(arguments)}" == line


#: Runs a query of each kind, and says with which types it has called kernels.
RUN = """
import json, sys
import braid
from braid.jit import runtime
streams, kinds = json.loads(sys.argv[1])
rows = {"k": ["a", "b", "a"], "x": [1.0, 2.0, 3.0], "n": [1, 2, 3], "t": [1, 2, 3]}
documents = {"id": ["1"], "doc": ["<book><author>A</author></book>"], "t": [1]}
for text in kinds:
    engine = braid.Engine()
    engine.execute(streams + text)
    engine.process({name: documents if name == "D" else rows for name in engine.streams})
    engine.finish()
    engine.snapshot()
print(json.dumps(sorted(runtime.calls)))
"""


def files() -> dict[str, int]:
    """The files of the package with the times of their last changes; Python itself writes bytecode."""
    found = (path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path): path.stat().st_mtime_ns for path in found}


def test_a_run_compiles_no_kernel_and_writes_nothing_into_the_package() -> None:
    before = files()
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps((_STREAMS, list(KINDS.values())))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(set(json.loads(done.stdout)) - set(build.calls())) == []
    assert files() == before
