"""Both forms of an operation, LLVM IR and Python, compute the same."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from braid.jit import llvm_code, python_code
from braid.jit.llvm_code import native
from braid.jit.operations import HELPERS, OPERATIONS
from braid.jit.program import EVENT, OUTPUT, Builder, Operand, Program
from braid.jit.runtime import float_word

WORDS = st.one_of(
    st.sampled_from([0, 1, -1, 2, 7, -7, 2**62, 2**63 - 1, -(2**63), 86_400_000_000]),
    st.integers(-(2**63), 2**63 - 1),
)
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, 5e-324, 2.0**63]),
    st.floats(),
)
DRAWN: dict[str, st.SearchStrategy[Any]] = {"b": st.booleans(), "i": WORDS, "f": FLOATS}
#: The operations without memory: those are in every program.
COMPUTING = {n: o for n, o in OPERATIONS.items() if o.result and not n.startswith("load")}
#: Libraries may differ in the last digit.
CLOSE = {"exp", "log", "log10", "log2", "pow"}


def machine_code(program: Program, row: list[int], words: int) -> list[int]:
    """The words that a writer writes, given a row."""
    function = native(program)
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 7)
    event, output = (ctypes.c_int64 * len(row))(*row), (ctypes.c_int64 * words)()
    here = ctypes.addressof(event), 0, 0, ctypes.addressof(output)
    assert kind(function.at)(0, 0, 0, *here) == 0
    return list(output)


def word_of(value: Any, type_: str) -> int:
    return float_word(value) if type_ == "f" else int(value)


def value_of(word: int, type_: str) -> Any:
    if type_ == "f":
        return struct.unpack("<d", struct.pack("<q", word))[0]
    return bool(word) if type_ == "b" else word


def loaded(b: Builder, place: int, type_: str) -> Operand:
    if type_ == "f":
        return b.op("load_float", EVENT, place)
    word = b.op("load_int", EVENT, place)
    return b.negated(b.op("eq_i", word, 0)) if type_ == "b" else word


def computed(name: str, given: list[Any]) -> Any:
    """What the machine code of one operation computes. Shifts are by constants."""
    operation, b = OPERATIONS[name], Builder()
    operands = [loaded(b, n, t) for n, t in enumerate(operation.arguments)]
    if name == "bit":
        operands[1] = given[1]
    result: Operand = b.op(name, *operands)
    if operation.result == "b":
        result = b.op("bool_to_int", result)
    b.store("store_float" if operation.result == "f" else "store_int", 0, result)
    row = [word_of(v, t) for v, t in zip(given, operation.arguments, strict=True)]
    (word,) = machine_code(Program(True, tuple(b.instructions)), row, 1)
    return value_of(word, operation.result)


def interpreted(name: str, given: list[Any]) -> Any:
    names = {f"x{n}": value for n, value in enumerate(given)}
    text = OPERATIONS[name].python.format(*names)
    return eval(text, {**python_code._names(), **names})


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def same(name: str, left: Any, right: Any) -> bool:
    if OPERATIONS[name].result != "f":
        return left == (wrapped(right) if OPERATIONS[name].result == "i" else right)
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    if name in CLOSE:
        return math.isclose(left, right, rel_tol=1e-14)
    return float_word(left) == float_word(right)


def is_possible(name: str, given: list[Any]) -> bool:
    """Whether the rules give an operation such operands."""
    if name in ("div_i", "rem_i"):
        return given[1] != 0 and given != [-(2**63), -1]
    if name == "div_f":
        return given[1] != 0
    if name == "float_to_int":
        return -(2.0**63) <= given[0] < 2.0**63
    if name == "bit":
        return 0 <= given[1] < 64
    return True


@pytest.mark.parametrize("name", COMPUTING)
@given(data=st.data())
def test_both_forms_agree(name: str, data: st.DataObject) -> None:
    given = [data.draw(DRAWN[t]) for t in OPERATIONS[name].arguments]
    if name == "bit":
        given[1] = data.draw(st.integers(0, 63))
    if is_possible(name, given):
        assert same(name, computed(name, given), interpreted(name, given)), given


@given(st.lists(st.tuples(WORDS, FLOATS), min_size=1, max_size=5))
@example([(-(2**63), -0.0)])
def test_words_are_stored_as_they_are(values: list[tuple[int, float]]) -> None:
    b = Builder()
    for n in range(len(values)):
        b.store("store_int", 2 * n, b.op("load_int", EVENT, 2 * n))
        b.store("store_float", 2 * n + 1, b.op("load_float", EVENT, 2 * n + 1))
    row = [word for i, f in values for word in (i, float_word(f))]
    assert machine_code(Program(True, tuple(b.instructions)), row, len(row)) == row


def test_names_of_both_forms_are_known() -> None:
    """The Python form refers to nothing else, and no helper has the name of an operation."""
    names = python_code._names()
    for operation in OPERATIONS.values():
        text = operation.python.format("x", "y", "z")
        code = compile(text, "operation", "eval")
        assert set(code.co_names) - {"x", "y", "z", "o", "int", "bool", "float"} <= set(names)
    assert not OPERATIONS.keys() & HELPERS.keys()


def test_an_operation_is_done_once() -> None:
    b = Builder()
    one, two = b.op("load_int", EVENT, 3), b.op("load_int", EVENT, 4)
    assert b.op("add_i", one, two) == b.op("add_i", one, two)
    assert b.op("add_i", two, one) != b.op("add_i", one, two)
    assert b.op("load_int", OUTPUT, 3) != one
    assert [i.operation for i in b.instructions].count("add_i") == 2


def test_constant_conditions_have_no_code() -> None:
    b = Builder()
    holds = b.op("eq_i", b.op("load_int", EVENT, 3), 1)
    known = len(b.instructions)
    assert b.all_of() is True
    assert b.any_of() is False
    assert b.all_of(True, holds, True, holds) == holds
    assert b.all_of(holds, False) is False
    assert b.any_of(False, holds) == holds
    assert b.any_of(holds, True) is True
    assert b.negated(True) is False
    assert b.integer(True, 1, 2) == 1
    assert b.integer(holds, b.op("load_int", EVENT, 3), b.op("load_int", EVENT, 3)) is not None
    b.refuse(False)
    assert len(b.instructions) == known
    assert b.negated(b.negated(holds)) == holds


def test_the_text_of_a_function_has_no_addresses() -> None:
    """What is shown for debugging is the same in every process."""
    b = Builder()
    b.store("store_int", 0, b.op("string_length", False, EVENT, b.op("load_int", EVENT, 3)))
    program = Program(True, tuple(b.instructions))
    text = llvm_code.definition(program, "f")
    assert "load ptr, ptr @string_length" in text
    assert "string_length(e, v0)" in python_code.definition(program)
