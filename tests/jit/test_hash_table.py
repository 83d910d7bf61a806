"""The hash table of slots against a dictionary, with links in arrays and inside the slots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.jit import hash_table
from braid.jit.hash_table import END, LEAST_CHAINS, OUTSIDE, HashTable, Link, TwoWayLink
from braid.jit.memory import free
from braid.jit.records import Record, i64, record

#: Many slots of few hashes: chains are long, and hashes of one chain differ.
HASHES = st.integers(0, 40) | st.integers(0, 2**62)


@record
class Slot(Record):
    """A slot with a link inside it."""

    value: i64
    link: i64
    hash: i64
    previous: i64


class Table:
    """A table and the array that its links lie in."""

    def __init__(self, two_way: bool, inside: bool, slots: int) -> None:
        self.two_way = two_way
        kind = TwoWayLink if two_way else Link
        self.size = Slot.stride if inside else kind.stride
        self.words = np.zeros(slots * self.size // 8, np.int64)
        self.memory = np.zeros(1, HashTable.dtype)
        self.table = HashTable.at(self.memory)
        offset = Slot.fields["link"].offset if inside else 0
        self.table.links = Link(Link.at(self.words) + offset)
        self.table.link_size = self.size
        hash_table.make_chains(self.table, LEAST_CHAINS)

    def insert(self, slot: int, hash_: int) -> None:
        put = hash_table.insert_two_way if self.two_way else hash_table.insert
        put(self.table, slot, hash_)

    def rechain(self, slots: int, chains: int) -> None:
        again = hash_table.rechain_two_way if self.two_way else hash_table.rechain
        again(self.table, slots, chains)

    def found(self, hash_: int) -> Iterator[int]:
        slot = hash_table.first(self.table, hash_)
        while (slot := hash_table.equal_from(self.table, slot, hash_)) >= 0:
            yield slot
            slot = Link(hash_table.link_of(self.table, slot)).next

    def free(self) -> None:
        hash_table.free_table(self.table)
        assert not self.table.heads


@given(st.booleans(), st.booleans(), st.lists(HASHES, max_size=40))
def test_a_table_finds_the_slots_of_a_hash(two_way: bool, inside: bool, hashes: list[int]) -> None:
    table = Table(two_way, inside, len(hashes) + 1)
    for slot, hash_ in enumerate(hashes):
        table.insert(slot, hash_)
        if slot > table.table.mask:
            table.rechain(slot + 1, 2 * (table.table.mask + 1))
    for hash_ in [*hashes, 41]:
        expected = {slot for slot, own in enumerate(hashes) if own == hash_}
        found = list(table.found(hash_))
        assert len(found) == len(set(found))
        assert set(found) == expected
    table.free()


@given(st.booleans(), st.lists(HASHES, min_size=1, max_size=40), st.data())
def test_slots_leave_in_any_order(inside: bool, hashes: list[int], data: st.DataObject) -> None:
    table = Table(True, inside, len(hashes))
    held = dict(enumerate(hashes))
    for slot, hash_ in held.items():
        table.insert(slot, hash_)
    for slot in data.draw(st.permutations(range(len(hashes)))):
        if data.draw(st.booleans()):
            del held[slot]
            hash_table.remove(table.table, slot)
            assert Link(hash_table.link_of(table.table, slot)).hash == OUTSIDE
        if data.draw(st.booleans()):
            table.rechain(len(hashes), data.draw(st.sampled_from([1, 16, 64])))
    for hash_ in hashes:
        assert set(table.found(hash_)) == {s for s, own in held.items() if own == hash_}
    table.free()


def test_the_newest_slot_of_a_chain_is_the_first() -> None:
    table = Table(False, False, 3)
    for slot in range(3):
        table.insert(slot, 5)
    assert list(table.found(5)) == [2, 1, 0]
    table.rechain(3, 16)
    assert list(table.found(5)) == [2, 1, 0]
    assert hash_table.first(table.table, 6) == END
    table.free()


@pytest.mark.parametrize(("count", "chains"), [(0, 16), (16, 16), (17, 32), (1000, 1024)])
def test_there_are_as_many_chains_as_slots(count: int, chains: int) -> None:
    assert hash_table.chains_for(count) == chains


def test_links_of_their_own_grow_with_the_slots() -> None:
    memory = np.zeros(1, HashTable.dtype)
    table = HashTable.at(memory)
    table.link_size = TwoWayLink.stride
    hash_table.make_chains(table, 16)
    for slot in range(100):
        hash_table.resize_links(table, slot + 1)
        hash_table.insert_two_way(table, slot, slot % 3)
    for slot in range(0, 100, 2):
        hash_table.remove(table, slot)
    slot, found = hash_table.first(table, 1), []
    while (slot := hash_table.equal_from(table, slot, 1)) >= 0:
        found.append(slot)
        slot = Link(hash_table.link_of(table, slot)).next
    assert found == [s for s in reversed(range(100)) if s % 3 == 1 and s % 2]
    hash_table.free_table(table)
    free(table.links.address)
