"""Machine code of predicates: when it is made, who shares it, and when its memory is given back."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from braid.algebra.expressions import Call, Literal, Ref, Source
from braid.algebra.types import BIGINT, BOOLEAN
from braid.jit import codegen, llvm_code
from braid.jit.llvm_code import NativeFunction, native
from braid.jit.program import EVENT, PARAMETERS, Builder, Program
from braid.plan.layout import Layout

LAYOUT = Layout(("a", "b"))


def above(shape: int) -> Program:
    """Whether a word of the event, of another place for each shape, is above the first parameter."""
    b = Builder()
    word = b.op("load_int", EVENT, shape)
    b.refuse(b.negated(b.op("lt_i", b.op("load_int", PARAMETERS, 0), word)))
    return Program(False, tuple(b.instructions))


def holds(function: NativeFunction, event: list[int], bound: int) -> bool:
    row, parameters = (ctypes.c_int64 * len(event))(*event), (ctypes.c_int64 * 1)(bound)
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 4)
    result = ctypes.c_uint8(7)
    places = ctypes.addressof(row), ctypes.addressof(parameters)
    status = kind(function.at)(ctypes.addressof(result), None, 0, *places, 0)
    assert status == 0
    assert result.value in (0, 1)
    return bool(result.value)


def works(function: NativeFunction, shape: int) -> bool:
    event = [0] * 400
    event[shape] = 5
    return holds(function, event, 4) and not holds(function, event, 5)


def module_of(function: NativeFunction) -> Any:
    assert function.at
    return function._module


def test_the_functions_that_wait_become_one_module() -> None:
    functions = [native(above(shape)) for shape in range(10)]
    assert len({module_of(f) for f in functions}) == 1
    assert len({f.at for f in functions}) == 10
    assert all(works(f, shape) for shape, f in enumerate(functions))
    later = native(above(10))
    assert module_of(later) is not module_of(functions[0])
    assert works(later, 10)


def test_modules_have_a_limit() -> None:
    functions = [native(above(shape)) for shape in range(llvm_code.MOST + 1)]
    assert len({module_of(f) for f in functions}) == 2
    assert all(works(f, shape) for shape, f in enumerate(functions))


def test_equal_programs_have_one_function() -> None:
    assert native(above(3)) is native(above(3))
    assert native(above(3)) is not native(above(4))


def test_queries_that_differ_in_constants_have_one_function() -> None:
    def function(bound: int) -> codegen.Function:
        test = Call("gt", (Ref(Source.INPUT, "a", BIGINT), Literal(bound, BIGINT)), BOOLEAN)
        return codegen.predicate(test, {Source.INPUT: codegen.Place("e", LAYOUT)})

    one, other = function(1), function(2)
    assert one.compiled is other.compiled
    assert one.program == other.program
    assert [f.parameters[0].value for f in (one, other)] == [1, 2]


def test_nothing_is_compiled_before_it_is_used() -> None:
    function = native(above(5))
    assert function._module is None
    assert function.at
    assert function._module is not None


def test_what_went_before_it_was_used_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []
    real = llvm_code._compile

    def counted(functions: list[NativeFunction]) -> None:
        compiled.append(len(functions))
        real(functions)

    assert native(above(6)).at
    monkeypatch.setattr(llvm_code, "_compile", counted)
    native(above(7))
    gc.collect()
    kept = native(above(8))
    assert works(kept, 8)
    assert sum(compiled) == 1


def test_a_module_goes_with_the_last_of_its_functions() -> None:
    functions = [native(above(shape)) for shape in (20, 21)]
    module = weakref.ref(module_of(functions[0]))
    del functions[0]
    gc.collect()
    assert module() is not None
    assert works(functions[0], 21)
    del functions
    gc.collect()
    assert module() is None
    assert works(native(above(21)), 21)


def test_functions_that_do_nothing_keep_no_others() -> None:
    other = native(above(22))
    assert module_of(other) is not None
    constant = native(Program(False, ()))
    assert module_of(constant) is not module_of(other)
    assert holds(constant, [0], 0)


def test_memory_is_given_back() -> None:
    """Many more shapes come and go than are there at a time."""

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def come_and_go(rounds: int) -> None:
        for turn in range(rounds):
            functions = [native(above(16 * turn % 256 + shape)) for shape in range(16)]
            assert works(functions[3], 16 * turn % 256 + 3)
            del functions
            gc.collect()

    if sys.platform != "linux":
        return
    come_and_go(10)
    before = resident()
    come_and_go(10)
    once = resident() - before
    come_and_go(30)
    # What stays is a small part of what 480 functions take, and does not grow with their number.
    assert resident() - before < max(2 * once, 0) + 4_000_000


def in_threads(count: int, task: Callable[[int], bool]) -> list[bool]:
    answers = [False] * count
    start = threading.Barrier(count)

    def run(n: int) -> None:
        start.wait()
        answers[n] = task(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_threads_compile_and_call_at_the_same_time() -> None:
    def task(n: int) -> bool:
        shapes = [30 + (5 * n + k) % 40 for k in range(20)]
        return all(works(native(above(shape)), shape) for shape in shapes)

    assert in_threads(4, task) == [True] * 4


def test_threads_share_a_function() -> None:
    found: list[NativeFunction] = []

    def task(_: int) -> bool:
        found.append(native(above(80)))
        return works(found[-1], 80)

    assert in_threads(6, task) == [True] * 6
    assert len(set(map(id, found))) == 1


def in_child(task: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if task() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_process_has_the_functions_and_makes_others() -> None:
    before, waiting = native(above(90)), native(above(91))
    assert works(before, 90)
    gone = native(above(93))
    assert works(gone, 93)

    def task() -> bool:
        nonlocal gone
        del gone
        gc.collect()
        others = native(above(92))
        return works(before, 90) and works(waiting, 91) and works(others, 92)

    assert in_child(task)
    assert works(before, 90)
    assert works(waiting, 91)
    assert works(gone, 93)


def test_a_fork_does_not_wait_for_a_thread_that_compiles() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with llvm_code._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_child(lambda: works(native(above(94)), 94))
    finally:
        done.set()
        thread.join()


SPAWNED = """
import braid
engine = braid.Engine()
engine.execute('''
    CREATE STREAM A (k BIGINT, s STRING, t BIGINT) TIME t;
    CREATE QUERY q AS SELECT k * 2 AS n FROM A WHERE k % 3 = 1 OR length(s) > 3 PUBLISH Found;
''')
rows = {"k": [1, 4, 5, 6], "s": ["a", "b", "long", "x"], "t": [1, 2, 3, 4]}
tables = [engine.process({"A": rows})["Found"], engine.finish()["Found"]]
print([n for table in tables for n in table["n"].to_pylist()])
"""


def test_a_spawned_process_writes_nothing_at_home(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SPAWNED], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[2, 8, 10]\n"
    assert list(tmp_path.iterdir()) == []
