"""Instances of patterns: rows in slots, chained by hash, each with the members that it is of.

A slot is a row of words (start, end, masks of NULLs, columns), then for each *way* a word with the
next slot of its chain and its hash, and a word with its *group* and its members. A group is what
all members of an instance agree on: the tests of the second event and the constants of the compiled
expressions. Members are nodes of the first input, as one number or as a list in an arena.

Most steps have one way to find an instance: by the values that must be equal whatever else holds. A
predicate such as `$2.Name = $1.Name OR $2.Code = $1.Code` has two, one for each clause, and an instance
hangs in a chain of each. An event that is led to an instance by several is shown to it by the first.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.runtime import kernel, load_half, load_int, store_half, store_int
from braid.operators.core.kernels.clauses import atom_holds
from braid.operators.core.kernels.keys import key_of

#: The `end` that marks a free slot. No event can have it: ingest rejects it.
FREE = np.int64(9223372036854775807)
_NAN = np.int64(0x7FF8000000000000)
_NEGATIVE_ZERO = np.int64(-9223372036854775808)

#: Words that a slot has beyond the instance's row and a word for each way.
EXTRA = 1

#: The frame of a step: what does not change while it runs, as words behind one address.
#: `*_BASE` is the word of the first column of a row; GROUP is a word of a slot, LINK and HASH are
#: halves of one, those of the first way. The first KEYS keys are those of all ways; the keys of way
#: w are from WAY_STARTS[w] to WAY_STARTS[w + 1]. An instance's key is a column, or -1 - number of
#: a parameter of its group. WHOLE: all that an instance binds at first is there in the event that
#: starts it; ALIKE: nothing bound is compared, so that all instances of a group have one hash.
(
    INSTANCE_KEYS,
    EVENT_KEYS,
    FLOAT_KEYS,
    KEYS,
    BIND,
    COLUMNS,
    EMIT,
    EMITTED,
    INSTANCE_BASE,
    EVENT_BASE,
    FIRST_BASE,
    OUT_BASE,
    LINK,
    HASH,
    GROUP,
    ITERATES,
    RESIDUAL,
    CHANNELS,
    FIRST_HEADS,
    SET_HEADS,
    STATES,
    EDGES,
    GROUPS,
    POOL,
    SETS,
    PARAMETERS,
    CLASSES,
    CLASS_COUNT,
    STRINGS,
    STATE_COUNT,
    BUDGET,
    ALIASES,
    ALIAS_COUNT,
    WAYS,
    WAY_STARTS,
    WHOLE,
    ALIKE,
    FRAME,
) = range(38)

#: A state: next state of the same first node, group, bound (-1: none, DEAD: gone), first edge,
#: the output node that everything goes on to; -1 is none. Of a state with a single edge that
#: begins with an interval: that test and its ends, so that most composites need not look at the
#: edge, and if the edge asks for nothing else its output node + 1 in the upper half of the test.
#: NO_TEST: there is none; INDEXED: there is none, and an index has more edges. A state fills a
#: line of the cache.
STATE_WORDS = 8
S_NEXT, S_GROUP, S_BOUND, S_EDGE, S_OUT, S_TEST, S_LOW, S_HIGH = range(STATE_WORDS)
DEAD = -2
NO_TEST, INDEXED = -1, -2

#: A first node with this bit is a set of nodes that an event belongs to all at once.
SET = np.int64(0x40000000)

#: A first node has a head and a digest (see `digest_of`), side by side. The head: its first state,
#: and above it the group of all its states, or two groups with the bit TWO, or SEVERAL: an event that
#: starts with most nodes need not look further.
SEVERAL = np.int64(0x7FFFFFFF)
TWO = np.int64(0x40000000)
TWO_BITS = 15
NO_STATE = np.int64(-1)

#: An edge: next of the same state, output node, number of atoms, where they are, the first atom,
#: and where the parameters of its compiled part are (-1: it has none).
EDGE_WORDS = 8
E_NEXT, E_OUT, E_ATOMS, E_AT, E_TEST, E_LOW, E_HIGH, E_PARAMETERS = range(8)

#: A group: class, number of atoms and where they are, where its parameters are, longest bound
#: (-1: none), stamp and slot of the instance being made, the hash of ALIKE instances + 1 once it
#: is known, the values of its static keys.
GROUP_WORDS = 10
G_CLASS, G_ATOMS, G_AT, G_PARAMETERS, G_BOUND, G_STAMP, G_SLOT, G_HASH, G_KEY = range(9)

#: A class: how many static keys, column and mode of each (column << 8 | mode), live instances.
CLASS_WORDS = 4
C_KEYS, C_COLUMN, C_LIVE = 0, 1, 3

#: Chains that a step begins with: a power of two.
LEAST_HEADS = 16

#: Cells of the arena that are not worth a compaction.
LEAST_ARENA = 65_536

#: An atom in the pool: kind | mode << 8 | column << 16, then lo and hi.
ATOM_WORDS = 3

#: The slots of a step: live instances, slots ever used, first free one, live ones after the last
#: sweep, where rows are and for how many there is room, where the heads of the chains are and
#: their number less one; the arena of member lists, what is used of it, its size, when to
#: compact it; the last stamp; members since the last check of budgets, and how many may come.
(
    COUNT,
    HIGH,
    FREE_HEAD,
    SWEPT,
    ROWS_AT,
    CAPACITY,
    HEADS_AT,
    HEADS_MASK,
    ARENA_AT,
    ARENA_USED,
    ARENA_SIZE,
    ARENA_LIMIT,
    STAMP,
    ADDED,
    ALLOWED,
    SLOTS,
) = range(16)

_HASHED = np.int64(0x7FFFFFFF)


@kernel()
def mix(value: int) -> int:
    """A finaliser that spreads every bit (splitmix64)."""
    z = np.uint64(value)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@kernel()
def canonical_float(word: int) -> int:
    """One word for every NaN and for both zeros, so that equal floats have equal words."""
    if word == _NEGATIVE_ZERO:
        return np.int64(0)
    exponent = word & np.int64(0x7FF0000000000000)
    if exponent == np.int64(0x7FF0000000000000) and (word & np.int64(0x000FFFFFFFFFFFFF)) != 0:
        return _NAN
    return word


@kernel()
def is_null(row: int, column: int) -> bool:
    return ((load_int(row, 2 + (column >> 6)) >> (column & 63)) & 1) != 0


@kernel()
def set_null(row: int, column: int) -> None:
    word = 2 + (column >> 6)
    store_int(row, word, load_int(row, word) | (np.int64(1) << np.int64(column & 63)))


@kernel()
def any_null(row: int, base: int) -> bool:
    for word in range(2, base):
        if load_int(row, word) != 0:
            return True
    return False


@kernel()
def _hash(row: int, base: int, columns: int, frame: int) -> int:
    """The hash of a row's key columns, or -1 if one of them is NULL (then nothing equals it)."""
    value = np.int64(0)
    for k in range(load_int(frame, KEYS)):
        column = load_int(columns, k)
        if is_null(row, column):
            return np.int64(-1)
        word = load_int(row, base + column)
        if load_int(load_int(frame, FLOAT_KEYS), k) != 0:
            word = canonical_float(word)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value & FREE


@kernel()
def _event_key(event: int, key: int, frame: int) -> int:
    """The word of an event that a key compares. It is known not to be NULL."""
    column = load_int(load_int(frame, EVENT_KEYS), key)
    word = load_int(event, load_int(frame, EVENT_BASE) + column)
    if load_int(load_int(frame, FLOAT_KEYS), key) != 0:
        return canonical_float(word)
    return word


@kernel()
def _instance_key(row: int, group: int, key: int, frame: int) -> int:
    """The word that an instance's key is: what it has bound, or a constant of its group."""
    column = load_int(load_int(frame, INSTANCE_KEYS), key)
    if column >= 0:
        word = load_int(row, load_int(frame, INSTANCE_BASE) + column)
    else:
        word = load_int(load_int(frame, PARAMETERS), load_int(group, G_PARAMETERS) - 1 - column)
    if load_int(load_int(frame, FLOAT_KEYS), key) != 0:
        return canonical_float(word)
    return word


@kernel()
def _is_key_bound(row: int, key: int, frame: int) -> bool:
    """Whether an instance has a value for a key that is not NULL."""
    column = load_int(load_int(frame, INSTANCE_KEYS), key)
    return column < 0 or not is_null(row, column)


@kernel()
def hash_event(event: int, class_: int, way: int, frame: int) -> int:
    """Where instances of a class that an event may affect are, along one way: by bound values and
    by constants."""
    value = _hash(event, load_int(frame, EVENT_BASE), load_int(frame, EVENT_KEYS), frame)
    if value < 0:
        return value
    starts = load_int(frame, WAY_STARTS)
    for key in range(load_int(starts, way), load_int(starts, way + 1)):
        if is_null(event, load_int(load_int(frame, EVENT_KEYS), key)):
            return np.int64(-1)
        value = mix(value + _event_key(event, key, frame))
    if class_ == 0:
        return value & _HASHED
    record = load_int(frame, CLASSES) + class_ * (8 * CLASS_WORDS)
    value += class_
    for k in range(load_int(record, C_KEYS)):
        code = load_int(record, C_COLUMN + k)
        key = key_of(event, code >> 8, load_int(frame, EVENT_BASE), code & 255)
        if key == _NEGATIVE_ZERO:  # NULL
            return np.int64(-1)
        value = mix(value + key)
    return value & _HASHED


@kernel()
def hash_instance(row: int, group: int, way: int, frame: int) -> int:
    """The same hash from the instance's side; `group` is the address of its record."""
    value = _hash(row, load_int(frame, INSTANCE_BASE), load_int(frame, INSTANCE_KEYS), frame)
    class_ = load_int(group, G_CLASS)
    if value < 0:
        return value
    starts = load_int(frame, WAY_STARTS)
    for key in range(load_int(starts, way), load_int(starts, way + 1)):
        if not _is_key_bound(row, key, frame):
            return np.int64(-1)
        value = mix(value + _instance_key(row, group, key, frame))
    if class_ == 0:
        return value & _HASHED
    record = load_int(frame, CLASSES) + class_ * (8 * CLASS_WORDS)
    value += class_
    for k in range(load_int(record, C_KEYS)):
        value = mix(value + load_int(group, G_KEY + k))
    return value & _HASHED


@kernel()
def hash_ways(row: int, group: int, frame: int) -> bool:
    """Write the hashes of an instance; whether some event may be led to it."""
    found, place = False, load_int(frame, HASH)
    if load_int(frame, ALIKE) != 0:
        value = load_int(group, G_HASH) - 1
        if value < 0:
            value = hash_instance(row, group, np.int64(0), frame)
            store_int(group, G_HASH, value + 1)
        store_half(row, place, value)
        return True
    for way in range(load_int(frame, WAYS)):
        value = hash_instance(row, group, way, frame)
        store_half(row, place + 2 * way, value)
        found |= value >= 0
    return found


@kernel()
def leads_somewhere(row: int, frame: int) -> bool:
    """What `hash_ways` said of an instance."""
    found, place = False, load_int(frame, HASH)
    for way in range(load_int(frame, WAYS)):
        found |= load_half(row, place + 2 * way) >= 0
    return found


@kernel()
def _is_on_way(instance: int, event: int, way: int, group: int, frame: int) -> bool:
    """Whether the keys of a way are equal."""
    starts = load_int(frame, WAY_STARTS)
    for key in range(load_int(starts, way), load_int(starts, way + 1)):
        if is_null(event, load_int(load_int(frame, EVENT_KEYS), key)):
            return False
        if not _is_key_bound(instance, key, frame):
            return False
        if _event_key(event, key, frame) != _instance_key(instance, group, key, frame):
            return False
    return True


@kernel()
def is_first_way(instance: int, event: int, way: int, group: int, frame: int) -> bool:
    """Whether an event is led to an instance by a way and by none before it."""
    for earlier in range(way):
        if _is_on_way(instance, event, earlier, group, frame):
            return False
    return _is_on_way(instance, event, way, group, frame)


@kernel()
def same_keys(instance: int, event: int, class_: int, group: int, frame: int) -> bool:
    """Whether equal hashes are equal keys, those of all ways. Both rows have no NULL among them."""
    if load_int(group, G_CLASS) != class_:
        return False
    for k in range(load_int(frame, KEYS)):
        x = load_int(
            instance, load_int(frame, INSTANCE_BASE) + load_int(load_int(frame, INSTANCE_KEYS), k)
        )
        y = load_int(event, load_int(frame, EVENT_BASE) + load_int(load_int(frame, EVENT_KEYS), k))
        if x != y:
            if load_int(load_int(frame, FLOAT_KEYS), k) == 0 or canonical_float(
                x
            ) != canonical_float(y):
                return False
    if class_ > 0:
        record = load_int(frame, CLASSES) + class_ * (8 * CLASS_WORDS)
        for k in range(load_int(record, C_KEYS)):
            code = load_int(record, C_COLUMN + k)
            key = key_of(event, code >> 8, load_int(frame, EVENT_BASE), code & 255)
            if key != load_int(group, G_KEY + k):
                return False
    return True


@kernel()
def atoms_hold(count: int, at: int, row: int, base: int, frame: int) -> bool:
    """Whether all of some atoms of the pool hold for a row."""
    atom = load_int(frame, POOL) + 8 * at
    for _ in range(count):
        test = load_int(atom, 0)
        key = key_of(row, test >> 16, base, (test >> 8) & 255)
        if not atom_holds(
            test & 255, key, load_int(atom, 1), load_int(atom, 2), load_int(frame, SETS)
        ):
            return False
        atom += 8 * ATOM_WORDS
    return True


@kernel()
def bind(row: int, first: int, frame: int) -> None:
    """Write the instance that an event of the first input starts."""
    base, first_base = load_int(frame, INSTANCE_BASE), load_int(frame, FIRST_BASE)
    sources, columns = load_int(frame, BIND), load_int(frame, COLUMNS)
    store_int(row, 0, load_int(first, 0))
    store_int(row, 1, load_int(first, 1))
    for word in range(2, base):
        store_int(row, word, 0)
    nulls = any_null(first, first_base)
    if not nulls and load_int(frame, WHOLE) != 0:
        for column in range(columns):
            store_int(row, base + column, load_int(first, first_base + load_int(sources, column)))
        return
    for column in range(columns):
        source = load_int(sources, column)
        if source < 0 or (nulls and is_null(first, source)):
            set_null(row, column)
            store_int(row, base + column, 0)
        else:
            store_int(row, base + column, load_int(first, first_base + source))


@kernel()
def compose(out: int, instance: int, event: int, frame: int) -> None:
    """Write the composite of an instance and an event."""
    base, instance_base = load_int(frame, OUT_BASE), load_int(frame, INSTANCE_BASE)
    event_base = load_int(frame, EVENT_BASE)
    sources, columns = load_int(frame, EMIT), load_int(frame, EMITTED)
    store_int(out, 0, load_int(instance, 0))
    store_int(out, 1, load_int(event, 1))
    for word in range(2, base):
        store_int(out, word, 0)
    nulls = any_null(instance, instance_base) or any_null(event, event_base)
    for column in range(columns):
        source = load_int(sources, column)
        if source >= 0:
            word = load_int(instance, instance_base + source)
        else:
            word = load_int(event, event_base - 1 - source)
        store_int(out, base + column, word)
    if not nulls:
        return
    for column in range(columns):
        source = load_int(sources, column)
        null = is_null(instance, source) if source >= 0 else is_null(event, -1 - source)
        if null:
            set_null(out, column)


# ---- slots and chains ----


@kernel()
def class_of(row: int, frame: int) -> int:
    """The address of the record of an instance's class."""
    group = load_int(frame, GROUPS) + (load_int(row, load_int(frame, GROUP)) >> 32) * (
        8 * GROUP_WORDS
    )
    return load_int(frame, CLASSES) + load_int(group, G_CLASS) * (8 * CLASS_WORDS)


@kernel()
def unlink(slot: int, rows: int, stride: int, heads: int, mask: int, frame: int) -> None:
    """Take a slot out of all its chains."""
    unlink_others(slot, np.int64(-1), rows, stride, heads, mask, frame)


@kernel()
def unlink_others(
    slot: int, but: int, rows: int, stride: int, heads: int, mask: int, frame: int
) -> None:
    """Take a slot out of its chains but that of one way, which it is out of already."""
    for way in range(load_int(frame, WAYS)):
        if way != but:
            _unlink(slot, way, rows, stride, heads, mask, frame)


@kernel()
def _unlink(slot: int, way: int, rows: int, stride: int, heads: int, mask: int, frame: int) -> None:
    link = load_int(frame, LINK) + 2 * way
    row = rows + slot * stride
    hash_ = np.int64(load_half(row, load_int(frame, HASH) + 2 * way))
    if hash_ < 0:
        return
    bucket = way * (mask + 1) + (hash_ & mask)
    at = load_int(heads, bucket)
    if at == slot:
        store_int(heads, bucket, load_half(row, link))
        return
    while load_half(rows + at * stride, link) != slot:
        at = np.int64(load_half(rows + at * stride, link))
    store_half(rows + at * stride, link, load_half(row, link))


@kernel()
def free_slot(slot: int, rows: int, stride: int, numbers: int, frame: int) -> None:
    row = rows + slot * stride
    store_int(row, 1, FREE)
    store_half(row, load_int(frame, LINK), load_int(numbers, FREE_HEAD))
    store_int(numbers, FREE_HEAD, slot)
    store_int(numbers, COUNT, load_int(numbers, COUNT) - 1)
    record = class_of(row, frame)
    store_int(record, C_LIVE, load_int(record, C_LIVE) - 1)


@kernel()
def take_slot(numbers: int, stride: int, frame: int) -> int:
    """A slot that nobody uses; the rows may have moved."""
    slot = load_int(numbers, FREE_HEAD)
    if slot >= 0:
        row = load_int(numbers, ROWS_AT) + slot * stride
        store_int(numbers, FREE_HEAD, load_half(row, load_int(frame, LINK)))
        return slot
    slot = load_int(numbers, HIGH)
    store_int(numbers, HIGH, slot + 1)
    capacity = load_int(numbers, CAPACITY)
    if slot == capacity:
        capacity = max(16, capacity + max(16, capacity // 8))
        store_int(numbers, ROWS_AT, resized(load_int(numbers, ROWS_AT), capacity * (stride // 8)))
        store_int(numbers, CAPACITY, capacity)
    return slot


@kernel()
def link_slot(slot: int, rows: int, stride: int, heads: int, mask: int, frame: int) -> None:
    """Hang a slot into a chain of each way by which events are led to it."""
    row = rows + slot * stride
    for way in range(load_int(frame, WAYS)):
        hash_ = np.int64(load_half(row, load_int(frame, HASH) + 2 * way))
        if hash_ >= 0:
            bucket = way * (mask + 1) + (hash_ & mask)
            store_half(row, load_int(frame, LINK) + 2 * way, load_int(heads, bucket))
            store_int(heads, bucket, slot)


@kernel()
def rehash(size: int, numbers: int, stride: int, frame: int) -> None:
    """Hang all slots in use into `size` new chains of each way."""
    ways = load_int(frame, WAYS)
    heads = resized(load_int(numbers, HEADS_AT), ways * size)
    store_int(numbers, HEADS_AT, heads)
    store_int(numbers, HEADS_MASK, size - 1)
    for bucket in range(ways * size):
        store_int(heads, bucket, -1)
    rows = load_int(numbers, ROWS_AT)
    for slot in range(load_int(numbers, HIGH)):
        if load_int(rows + slot * stride, 1) != FREE:
            link_slot(slot, rows, stride, heads, size - 1, frame)


@kernel()
def sweep_slots(numbers: int, stride: int, frame: int, now: int) -> None:
    """Free every instance whose longest bound is over at `now`."""
    rows, heads = load_int(numbers, ROWS_AT), load_int(numbers, HEADS_AT)
    mask, place = load_int(numbers, HEADS_MASK), load_int(frame, GROUP)
    for slot in range(load_int(numbers, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        group = load_int(frame, GROUPS) + (load_int(row, place) >> 32) * (8 * GROUP_WORDS)
        bound = load_int(group, G_BOUND)
        if bound >= 0 and now - load_int(row, 0) > bound:
            unlink(slot, rows, stride, heads, mask, frame)
            free_slot(slot, rows, stride, numbers, frame)
    store_int(numbers, SWEPT, load_int(numbers, COUNT))
