"""Records: fields, pointers and numbers, compiled and in Python; accesses that are checked."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated

import numpy as np
import pytest
from numba.core.errors import TypingError

from braid.jit import allocations
from braid.jit.memory import address_of
from braid.jit.records import (
    Bytes,
    Floats,
    Halves,
    Record,
    Words,
    f64,
    filled,
    i32,
    i64,
    record,
    u8,
)
from braid.jit.runtime import COMPILED, kernel, load_int
from braid.jit.vector import Vector, free_vector, push


@record
class Node(Record):
    """One of each kind of field."""

    small: i32
    tiny: u8
    value: i64
    ratio: f64
    keys: Annotated[Words, 2]
    marks: Annotated[Bytes, 3]
    after: Node
    row: Words


@record
class List(Record):
    """A list of nodes."""

    first: Node
    count: i64
    halves: Halves
    floats: Floats


@kernel()
def total(nodes: List) -> int:
    found = 0
    node = nodes.first
    while node.address != 0:
        found += node.value + node.small + node.tiny + node.keys[1]
        node = node.after
    return found


@kernel((List.type,))
def total_of(nodes: List) -> int:
    return total(nodes)


@kernel((List.type,))
def write(nodes: List) -> int:
    node = nodes.first[1]
    node.small = -7
    node.tiny = 300
    node.ratio = 0.5
    node.keys[0] = 11
    node.marks[2] = 255
    node.after = nodes.first
    node.row = node.keys.after(1)
    node.row[0] = 12
    nodes.halves[1] = -1
    nodes.floats[0] = nodes.floats[1] + node.ratio
    return node.small + node.marks[2] + (node.after == nodes.first) + (node != nodes.first)


@kernel((List.type,))
def confused(nodes: List) -> int:
    return total(nodes.first)


@kernel()
def first_word(words: int) -> int:
    return load_int(words, 0) + load_int(words + 8, 0)


@kernel((List.type,))
def by_address(nodes: List) -> int:
    return first_word(nodes.first.keys)


@record
class Tagged(Node):
    """A node with more."""

    tag: i64


@kernel()
def value_of(node: Node) -> int:
    return node.value


@kernel((Tagged.type,))
def value_and_tag(node: Tagged) -> int:
    node[1].tag = 5
    return value_of(node) + node.tag + node[1].tag


class Fixture:
    """Two nodes in an array, and a list of them."""

    def __init__(self) -> None:
        self.nodes = np.zeros((2, Node.stride // 8), np.int64)
        self.halves = np.zeros(2, np.int32)
        self.floats = np.array([0.0, 2.0])
        self.words = np.zeros(List.stride // 8, np.int64)
        self.list = List(address_of(self.words))
        self.list.first = Node(address_of(self.nodes))
        self.list.count = 2
        self.list.halves = Halves(address_of(self.halves))
        self.list.floats = Floats(address_of(self.floats))


def test_fields_are_aligned_and_in_order() -> None:
    offsets = {name: field.offset for name, field in Node.fields.items()}
    assert offsets == {
        "small": 0,
        "tiny": 4,
        "value": 8,
        "ratio": 16,
        "keys": 24,
        "marks": 40,
        "after": 48,
        "row": 56,
    }
    assert Node.stride == 64


def test_python_and_kernels_see_the_same() -> None:
    given = Fixture()
    first, second = given.list.first[0], given.list.first[1]
    first.value, first.small, second.value, second.tiny = 10, -3, 20, 7
    second.keys[1] = 100
    first.after = second
    assert total_of(given.list) == 10 - 3 + 20 + 7 + 100
    assert total_of(given.list.address) == 134  # an address will do for what Python calls


def test_kernels_write_fields() -> None:
    given = Fixture()
    assert write(given.list) == -7 + 255 + 1 + 1
    second = given.list.first[1]
    assert (second.small, second.tiny, second.ratio) == (-7, 300 % 256, 0.5)
    assert (second.keys[0], second.keys[1], second.marks[2]) == (11, 12, 255)
    assert second.after == given.list.first
    assert second.row == second.keys.after(1)
    assert given.halves.tolist() == [0, -1]
    assert given.floats.tolist() == [2.5, 2.0]


def test_a_pointer_is_an_address() -> None:
    given = Fixture()
    given.list.first.keys[0], given.list.first.keys[1] = 3, 4
    assert by_address(given.list) == 7


@record
class Lists(Record):
    """Records in place."""

    count: i64
    pair: Annotated[Vector, 2]
    last: i64


@kernel((Lists.type,))
def push_squares(lists: Lists) -> int:
    for k in range(40):
        push(lists.pair[1], k * k)
    lists.last = lists.pair[1].items[39] + Words(lists.pair[1])[1]
    free_vector(lists.pair[1])
    return lists.pair[1].count


def test_records_lie_in_place_and_numpy_reads_them() -> None:
    array = np.zeros(2, Lists.dtype)
    assert push_squares(Lists.at(array)[1]) == 0
    assert array["last"].tolist() == [0, 39 * 39 + 64]
    assert Lists.stride == Lists.dtype.itemsize == 64
    nodes = np.zeros(3, Node.dtype)
    nodes["keys"][1] = 7, 8
    assert (Node.at(nodes)[1].keys[1], Node.dtype["small"]) == (8, np.dtype(np.int32))


def test_a_record_extends_another() -> None:
    assert Tagged.stride == Node.stride + 8
    words = np.zeros(2, Tagged.dtype)
    words["value"][0], words["tag"][0] = 30, 4
    assert value_and_tag(Tagged.at(words)) == 39
    assert words["tag"].tolist() == [4, 5]


@record
class Cell(Record):
    """Halves only: the next one follows without a gap."""

    row: i32
    column: i32
    value: i32


@record
class Table(Record):
    """A pointer to an array with its length."""

    cells: Cell
    cells_length: i64


@record
class Tables(Record):
    """A table in place beside plain fields."""

    count: i64
    table: Annotated[Table, 1]
    words: Words


@kernel((Tables.type,))
def total_of_tables(tables: Tables) -> int:
    found = tables.count + tables.words[0]
    for k in range(tables.table.cells_length):
        found += tables.table.cells[k].value
    return found


def test_a_record_is_filled_with_arrays() -> None:
    cells = np.array([(1, 2, 30), (1, 3, 40)], Cell.dtype)
    assert Cell.stride == cells.itemsize == 12
    words = np.array([100, 7])
    filled_tables = filled(Tables, count=5, table=cells, words=words)
    assert total_of_tables(Tables.at(filled_tables)) == 5 + 100 + 70
    with pytest.raises(AssertionError, match="words have 12 bytes"):
        filled(Tables, words=cells)
    with pytest.raises(AssertionError, match="gaps"):
        filled(Tables, words=np.zeros((4, 4), np.int64)[:, 1])


def test_a_pointer_to_something_else_is_refused() -> None:
    given = Fixture()
    with pytest.raises(TypingError if COMPILED else TypeError, match="total"):
        confused(given.list)
    with pytest.raises(AssertionError):
        given.list.first = given.list  # type: ignore[assignment]


def test_allocations_know_what_there_is() -> None:
    array = np.zeros(4, np.int64)
    allocations.array_allocated(array[1:3])
    begin = array.ctypes.data
    allocations.check(begin, 8)
    allocations.check(begin + 24, 8)
    for address, size in ((begin - 8, 8), (begin + 28, 8), (begin + 32, 1)):
        with pytest.raises(allocations.BadAccess):
            allocations.check(address, size)
    del array
    with pytest.raises(allocations.BadAccess):
        allocations.check(begin, 8)


SANITIZED = """
import numpy as np
from braid.jit import memory
from braid.jit.runtime import address, load_int
array = np.zeros(2, np.int64)
base = memory.resized(0, 2)
moved = memory.resized(base, 4)
def refused(access):
    try:
        access()
    except AssertionError as error:
        return type(error).__name__
assert load_int(address(array), 1) == 0
assert load_int(moved, 3) is not None
print(refused(lambda: load_int(address(array), 2)), refused(lambda: load_int(base, 0)))
memory.free(moved)
print(refused(lambda: load_int(moved, 0)))
"""


def test_with_the_compiler_off_every_access_is_checked() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["BadAccess"] * 3, done.stderr


def test_records_with_the_compiler_off() -> None:
    if not COMPILED:
        return
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
