"""The memory of a step: its frame, its tables of members, and its instances.

An *instance* lies in a slot: a row of words (start, end, masks of NULLs, columns), a `Link` for each
*alternative*, and an `Owner` that says whose it is. Members share an instance if they are in one
*group*: they agree on the tests of the second event and on the constants of the compiled expressions.

Most steps find an instance in one way: by the values that must be equal whatever else holds. A
predicate such as `$2.Name = $1.Name OR $2.Code = $1.Code` has two alternatives, one for each clause,
and an instance hangs in a chain of each. If several lead an event to an instance, the first one shows
the event to it.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from braid.jit.records import Record, Words, i32, i64, record
from braid.jit.vector import Vector

#: The bound of a group that no state has given one yet.
UNSET = -9

#: The test of a state without one, and of a state without one whose other edges are in an index.
NO_TEST, INDEXED = -1, -2

#: The group of a head whose states are in several groups, and the bit of a head that has two.
SEVERAL = np.int64(0x7FFFFFFF)
TWO = np.int64(0x40000000)
TWO_BITS = 15

#: Chains that a step begins with: a power of two.
LEAST_HEADS = 16

#: Cells of the arena that are not worth a compaction.
LEAST_ARENA = 65_536


@record
class Atom(Record):
    """A test of a row: kind | mode << 8 | column << 16, and its limits."""

    test: i64
    low: i64
    high: i64


@record
class State(Record):
    """A first node that waits in a group; -1 is none. A state fills a line of the cache.

    A state with a single edge that begins with an interval has a copy of that test, so that most
    composites need not look at the edge. If the edge asks for nothing else, its output node + 1 is in
    the upper half of the test.
    """

    #: The next state of the same first node.
    next: i64
    group: i64
    bound: i64
    #: The first edge.
    edge: i64
    #: The output node that every composite goes on to.
    out: i64
    test: i64
    low: i64
    high: i64


@record
class Edge(Record):
    """What a composite must satisfy to go on to an output node."""

    #: The next edge of the same state.
    next: i64
    out: i64
    #: The number of atoms; the first one lies here, the others begin at `first_atom`.
    atoms: i64
    first_atom: i64
    test: i64
    low: i64
    high: i64
    #: Where the parameters of the compiled part begin; -1 without one.
    parameters: i64


@record
class Group(Record):
    """What the members of an instance have in common."""

    key_class: i64
    atoms: i64
    first_atom: i64
    parameters: i64
    #: The longest bound of a state.
    bound: i64
    #: The event that started the instance in `slot`.
    stamp: i64
    slot: i64
    #: The hash of all instances + 1, if they have one hash and it is known.
    hash: i64
    #: The values of its static keys.
    keys: Annotated[Words, 2]


@record
class KeyClass(Record):
    """The columns of the static keys of some groups."""

    count: i64
    #: column << 8 | mode
    columns: Annotated[Words, 2]
    #: Live instances.
    live: i64


@record
class Head(Record):
    """What an event that starts with a first node looks at, before any state.

    `group` is the group of all states of the node, or two groups with the bit TWO, or SEVERAL; -1: the
    node has no state. `digest`: see `members.digest_of`.
    """

    state: i32
    group: i32
    digest: i64


@record
class Alias(Record):
    """A state of a set of first nodes, and a state that it stands for."""

    state: i64
    meant: i64


@record
class Link(Record):
    """The next slot of a chain, or of the free slots; -1 ends it. And the hash of the instance, -1 if
    no event can find it."""

    next: i32
    hash: i32


@record
class Owner(Record):
    """The members of an instance: a cell of the arena, or one node with the bit SINGLE."""

    members: i32
    group: i32


@record
class Cell(Record):
    """A member in a list; cells are never changed. `next` is -1 in the last one."""

    next: i32
    node: i32


@record
class Slots(Record):
    """The instances of a step."""

    #: Live instances, slots ever used, the first free one, live instances after the last sweep.
    count: i64
    high: i64
    free_head: i64
    swept: i64
    rows: Words
    capacity: i64
    #: The first slots of the chains: (mask + 1) of them for each alternative.
    heads: Words
    mask: i64
    arena: Cell
    arena_used: i64
    arena_size: i64
    #: Cells in use that are worth a compaction.
    arena_limit: i64
    #: The number of the last event that started instances.
    stamp: i64
    #: Members since the last check of budgets, and how many may come.
    added: i64
    allowed: i64


@record
class Frame(Record):
    """What does not change while a step runs a batch.

    `*_base` is the word of the first column of a row, and `*_offset` the byte of a slot. The first
    `key_count` keys are those of all alternatives; those of alternative a are from starts[a] to
    starts[a + 1]. The key of an instance is a column, or -1 - the number of a parameter of its group.
    """

    instance_keys: Words
    event_keys: Words
    float_keys: Words
    key_count: i64
    #: The column of the first event that each column of an instance is at first; -1: it is NULL.
    bind: Words
    columns: i64
    #: The column of an instance, or -1 - the column of an event, that each output column is.
    emit: Words
    emitted: i64
    instance_base: i64
    event_base: i64
    first_base: i64
    out_base: i64
    link_offset: i64
    owner_offset: i64
    slot_size: i64
    iterates: i64
    residual: i64
    #: Whether all first nodes of an event start one instance.
    channels: i64
    first_heads: Head
    set_heads: Head
    states: State
    state_count: i64
    edges: Edge
    groups: Group
    atoms: Atom
    #: The sorted values of IN lists.
    sets: Words
    parameters: Words
    classes: KeyClass
    class_count: i64
    strings: Words
    #: Instances that a state may have.
    budget: i64
    aliases: Alias
    alias_count: i64
    alternatives: i64
    starts: Words
    #: Whether the first event has all that an instance binds.
    binds_all: i64
    #: Whether all instances of a group have one hash, because nothing bound is compared.
    one_hash: i64


@record
class Output(Record):
    """What a run gives to its caller: output rows, and in each vector

    `pairs`: row << 32 | output node, or row << 32 | MANY | state;
    `stopped`: two words (state, time) for each state that exceeded its budget.

    The other vectors are used by the run alone: members from which a composite may go on, instances
    that an epoch has affected, and instances that it has made.
    """

    rows: Words
    room: i64
    count: i64
    pairs: Annotated[Vector, 1]
    stopped: Annotated[Vector, 1]
    chosen: Annotated[Vector, 1]
    affected: Annotated[Vector, 1]
    made: Annotated[Vector, 1]
