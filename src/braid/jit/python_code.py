"""Programs as Python, for the lane with the compiler off: every access to memory is checked."""

from __future__ import annotations

import ctypes
import functools
import itertools
import linecache
import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from braid.jit import runtime
from braid.jit.operations import HELPERS, OPERATIONS, REFUSE
from braid.jit.program import Operand, Program, Variable


def definition(program: Program) -> str:
    """The text of a function."""
    arguments = "i, e, p, s, o" if program.writes else "i, e, p, s"
    body = [f"    {line}" for line in _body(program)]
    end = "    return None" if program.writes else "    return True"
    return "\n".join([f"def generated({arguments}):", *body, end]) + "\n"


def _body(program: Program) -> Iterator[str]:
    for number, (operation, operands) in enumerate(program.instructions):
        texts = [_operand(operand) for operand in operands]
        if operation == REFUSE:
            yield f"if {texts[0]}:"
            yield "    return False"
        elif operation in HELPERS:
            unless, *given = texts
            nothing = {"b": "False", "i": "0", "f": "0.0"}[HELPERS[operation].result]
            yield f"v{number} = {nothing} if {unless} else {operation}({', '.join(given)})"
        else:
            text = OPERATIONS[operation].python.format(*texts)
            yield f"v{number} = {text}" if OPERATIONS[operation].result else text


def _operand(operand: Operand) -> str:
    return operand.name if isinstance(operand, Variable) else repr(operand)


@functools.lru_cache(4096)
def interpreted(program: Program) -> Callable[..., Any]:
    """The function of a program. A debugger finds its text."""
    text = definition(program)
    name = f"<generated {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = _names()
    exec(compile(text, name, "exec"), names)
    function = names["generated"]
    weakref.finalize(function, linecache.cache.pop, name, None)
    return function


_numbers = itertools.count()


def _names() -> dict[str, Any]:
    """What the text refers to."""
    return {
        **{name: helper.kernel for name, helper in HELPERS.items()},
        **{name: getattr(runtime, name) for name in ("load_int", "load_float")},
        **{name: getattr(runtime, name) for name in ("store_int", "store_float")},
        **_of_the_c_library(),
        "inf": math.inf,
        "nan": math.nan,
        "overflows": _overflows,
        "single": _single,
        "truncated": _truncated,
    }


@functools.cache
def _of_the_c_library() -> dict[str, Any]:
    """Python's own raise where these have a result."""
    library = ctypes.CDLL(None)
    found = {}
    for name in ("fabs", "ceil", "floor", "sqrt", "exp", "log", "log10", "log2", "pow", "fmod"):
        function = library[name]
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_double] * (2 if name in ("pow", "fmod") else 1)
        found[name] = function
    return found


def _overflows(value: int) -> bool:
    return not -(2**63) <= value < 2**63


def _single(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _truncated(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient
