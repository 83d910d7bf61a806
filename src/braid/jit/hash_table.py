"""A hash table of slots: chains of the slots whose hashes end in the same bits.

The table knows a slot by its number and by its *link*: the next slot of the chain, and the hash. Links
lie `link_size` bytes apart, in an array of their own or inside the slots. A hash isn't negative, and
OUTSIDE in its place marks a slot that is in no chain. So a table grows without reading what a slot
holds.

A table whose slots leave one by one has links in both directions (`TwoWayLink`), and its slots enter
by `insert_two_way` and `rechain_two_way`. In all other tables, a slot stays until the table is
rebuilt.
"""

from __future__ import annotations

from braid.jit.memory import release, resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import kernel

#: The end of a chain.
END = -1
#: The hash of a slot that is in no chain.
OUTSIDE = -1
#: How many chains a table has at least, except if all its slots share one.
LEAST_CHAINS = 16


@record
class Link(Record):
    """The place of a slot in a chain."""

    next: i64
    hash: i64


@record
class TwoWayLink(Link):
    """The place of a slot in a chain that it can leave."""

    previous: i64


@record
class HashTable(Record):
    """The chains of some slots. A table of zeros has no chains: `make_chains` comes first."""

    #: The first slot of each chain, and the number of chains less one.
    heads: Words
    mask: i64
    #: The link of slot 0, and the bytes from a link to the next.
    links: Link
    link_size: i64


@kernel()
def link_of(table: HashTable, slot: int) -> Link:
    return Link(table.links + slot * table.link_size)


@kernel()
def _two_way(table: HashTable, slot: int) -> TwoWayLink:
    return TwoWayLink(table.links + slot * table.link_size)


@kernel()
def chains_for(count: int) -> int:
    """How many chains suit so many slots: a power of two."""
    chains = LEAST_CHAINS
    while chains < count:
        chains *= 2
    return chains


@kernel()
def make_chains(table: HashTable, chains: int) -> None:
    """Give a table so many empty chains, a power of two."""
    heads = Words(resized(table.heads, chains))
    for chain in range(chains):
        heads[chain] = END
    table.heads = heads
    table.mask = chains - 1


@kernel()
def resize_links(table: HashTable, slots: int) -> None:
    """Let the array of links have room for so many slots."""
    table.links = Link(resized(table.links, slots * table.link_size // 8))


@kernel()
def free_table(table: HashTable) -> None:
    """Give back the chains; the table has none then. Links belong to the owner of the slots."""
    release(table.heads)
    table.heads, table.mask = Words(0), 0


# ---- search ----


@kernel()
def first(table: HashTable, hash_: int) -> int:
    """The first slot of the chain of a hash, or END."""
    return table.heads[hash_ & table.mask]


@kernel()
def equal_from(table: HashTable, slot: int, hash_: int) -> int:
    """The slot, or the first after it in its chain, that has this hash; or END."""
    while slot >= 0:
        link = link_of(table, slot)
        if link.hash == hash_:
            return slot
        slot = link.next
    return slot


# ---- chains in one direction ----


@kernel()
def insert_link(table: HashTable, link: Link, slot: int, hash_: int) -> None:
    """Put a slot, whose link is this, at the head of its chain."""
    chain = hash_ & table.mask
    link.next = table.heads[chain]
    link.hash = hash_
    table.heads[chain] = slot


@kernel()
def insert(table: HashTable, slot: int, hash_: int) -> None:
    """Put a slot at the head of its chain."""
    insert_link(table, link_of(table, slot), slot, hash_)


@kernel()
def rechain(table: HashTable, slots: int, chains: int) -> None:
    """Put the first `slots` slots, by the hashes that they have, into so many new chains."""
    make_chains(table, chains)
    for slot in range(slots):
        link = link_of(table, slot)
        if link.hash >= 0:
            insert_link(table, link, slot, link.hash)


# ---- chains in both directions ----


@kernel()
def insert_two_way(table: HashTable, slot: int, hash_: int) -> None:
    """Put a slot at the head of its chain, from which `remove` takes it."""
    chain, link = hash_ & table.mask, _two_way(table, slot)
    following = table.heads[chain]
    link.next = following
    link.previous = END
    link.hash = hash_
    if following >= 0:
        _two_way(table, following).previous = slot
    table.heads[chain] = slot


@kernel()
def remove(table: HashTable, slot: int) -> None:
    """Take a slot out of its chain."""
    link = _two_way(table, slot)
    following, previous = link.next, link.previous
    if following >= 0:
        _two_way(table, following).previous = previous
    if previous >= 0:
        _two_way(table, previous).next = following
    else:
        table.heads[link.hash & table.mask] = following
    link.hash = OUTSIDE


@kernel()
def rechain_two_way(table: HashTable, slots: int, chains: int) -> None:
    """Put the first `slots` slots, by the hashes that they have, into so many new chains."""
    make_chains(table, chains)
    for slot in range(slots):
        hash_ = _two_way(table, slot).hash
        if hash_ >= 0:
            insert_two_way(table, slot, hash_)
