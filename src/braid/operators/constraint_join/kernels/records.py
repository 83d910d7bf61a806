"""The memory of a constraint join: its frame, the rows of each input, their indexes, and the watches.

A *slot* holds a row and what ties it to others: the words of the row, a `Tail`, a `Neighbours`, and a
`TwoWayLink` for each index. The row with its tail is a *held row*: what is written to disk when the row is
evicted. Joins of relations hold rows without most of that (`delta_store.py`).
"""

from __future__ import annotations

from typing import Annotated

from braid.jit.bloom_filter import BloomFilter
from braid.jit.hash_table import HashTable
from braid.jit.records import Halves, Record, Words, i32, i64, record
from braid.jit.row_keys import KeyColumn
from braid.jit.vector import Vector
from braid.operators.join.kernels.frame import Bound, Feed, Source

#: The longest `Store.lifetime`.
LONGEST_LIFETIME = 1 << 16

#: Whether rows of an input have one result at most (`Store.one_result`): results are not counted, they
#: are counted, or it is taken to hold, and rows leave after their result.
UNCOUNTED, COUNTED, CONFIRMED = range(3)

#: The mark of an edge if no partner comes any more because the cluster of its value is over. Clusters
#: that are over are forgotten, so the row remembers it. (-1: a partner has come.)
OVER = -2

#: Flags of a row: it is in a result; it is still in memory only because it is sampled; it was
#: brought back from disk; it was counted against what would have dropped it. From bit `MASKED` on: the
#: indexes by which it must be found on disk (0: all), or why a sampled row would have been dropped.
IN_RESULT, SAMPLED, RETURNED, ATTRIBUTED = 1, 2, 4, 8
MASKED = 8

#: What a watch observes; see `arrivals.py`.
WAITS, ASCENDS, DESCENDS, CLUSTERS = range(4)

#: Roles of a criterion.
WAITING, ASKED = range(2)

#: Phases of a watch: every key counts, or one in some.
PROVES, LOOKS = range(2)

#: Whether a watch is of a declared constraint (`Watch.declared`), and the data have broken it.
DECLARED, BROKEN = 1, 2


@record
class Tail(Record):
    """What follows the words of a held row."""

    #: The number of the row among the events of its input.
    number: i64
    flags: i64
    #: For every edge of the input, the events that the other input had when the row came; -1, `OVER`.
    marks: Annotated[Words, 1]


@record
class Neighbours(Record):
    """The slots that came before and after one; -1: none."""

    older: i64
    newer: i64


@record
class HalfLink(Record):
    """The place of a row of a relation in a chain."""

    next: i32
    previous: i32


@record
class ObservedKeys(Record):
    """Hashes of keys that have come: two sets, and the words of a third one to work with."""

    newer: Words
    older: Words
    spare: Words
    #: The number of places less one, and the keys in the newer set.
    mask: i64
    count: i64
    #: One key in so many is observed, less one.
    skipped: i64
    #: Since when each set reaches back, how far back both are to reach, whether that is a time (else
    #: it is a number of events), and whether they have reached it.
    since: i64
    older_since: i64
    span: i64
    timed: i64
    complete: i64


@record
class Index(Record):
    """The chains of the rows of one input by the columns of a key."""

    #: The number of the store.
    store: i64
    keys: i64
    columns: KeyColumn
    #: The chains of slots, and the word of a slot where its link is.
    chains: Annotated[HashTable, 1]
    link_word: i64
    #: Keys of rows on disk.
    spilled: Annotated[BloomFilter, 1]
    #: Rows that came, those of them whose key was there, and the first of these: its number among the
    #: events, its time, and the first value of its key.
    seen: i64
    duplicates: i64
    duplicate_number: i64
    duplicate_time: i64
    duplicate_value: i64
    #: Whether at most one row has a key.
    unique: i64
    #: Keys of rows that WHERE rejected: the newer filter, and the one before. `rejects`: rows that wait
    #: for such a key can leave.
    rejected: Annotated[BloomFilter, 1]
    rejected_before: Annotated[BloomFilter, 1]
    rejects: i64
    #: Probes, and rows that they found.
    probes: i64
    found: i64
    observed: Annotated[ObservedKeys, 1]
    #: Of relations instead of `chains`: halves of words (no heads: the index isn't made). And of the
    #: index of equal rows: whether rows are equal if their words are, because no column is a float.
    half_heads: Halves
    half_mask: i64
    half_links: HalfLink
    by_words: i64


@record
class Store(Record):
    """The rows that are held of one input."""

    count: i64
    #: Slots ever used, and the first free one of them (-1: none; a free slot begins with the next).
    high: i64
    free: i64
    slots: Words
    capacity: i64
    #: Words of a slot, of a row, and of a held row; the word of the first column.
    slot_words: i64
    width: i64
    record_words: i64
    base: i64
    #: The slots of the oldest and of the newest row; -1: none.
    oldest: i64
    newest: i64
    #: Events of the input so far.
    arrivals: i64
    #: The window: its size (-1: unbounded), whether it counts rows, and the number of the last event
    #: that has left it.
    size: i64
    by_rows: i64
    last_left: i64
    #: The column that says whether WHERE keeps a row; -1: none.
    keeps: i64
    first_index: i64
    index_count: i64
    edge_count: i64
    #: Rows on disk.
    spilled: i64
    #: Whether rows are in one result at most (`CONFIRMED`), results that were the first one of a row, and
    #: all others.
    one_result: i64
    further_results: i64
    first_results: i64
    #: The most rows that were held at once, rows that were evicted, and rows that were brought back.
    peak: i64
    evicted: i64
    returned: i64
    #: Words of the rows that wait to be written to disk.
    buffer: Annotated[Vector, 1]
    #: The watches of the columns of the input.
    first_watch: i64
    watch_count: i64
    #: Of relations: deletions among the rows on disk.
    spilled_deletions: i64
    #: Rows that came and that WHERE keeps.
    accepted: i64
    #: How long a row stays if nothing evicts it: a part of the longest time of an input.
    lifetime: i64
    #: Of relations: whether one of the indexes is of a declared key (`Index.unique`).
    keyed: i64


@record
class Run(Record):
    """The largest value so far, and since when it is that."""

    value: i64
    since: i64


@record
class Cluster(Record):
    """A value, and its counter: the events so far less those with other values since its first one, or,
    of clusters in time, when it came last. -1: the place is free."""

    value: i64
    counter: i64


@record
class Watch(Record):
    """How far the data miss a constraint; see `watch.py`."""

    kind: i64
    #: The input whose events are observed, and the column.
    input: i64
    column: i64
    #: The most that the constraint is missed by; `ENDLESS`: it is not known to hold.
    k: i64
    #: The largest distance of the current window of events, the events in it, and its length.
    largest: i64
    counted: i64
    window: i64
    #: The event until which it sleeps, and how often in a row it found nothing.
    sleeps_until: i64
    sleeps: i64
    #: Whether distances are times (else they are numbers of events).
    timed: i64
    declared: i64
    #: Events that broke it; the number of the first one, and when it came.
    breaks: i64
    breaker: i64
    broken_at: i64
    #: Rows that were evicted because of it, after `factor` / 1024 times k.
    evicted: i64
    factor: i64
    #: A larger k is not used.
    threshold: i64
    #: Runs of an order, or a hash table of clusters: memory, room, and entries.
    table: Words
    room: i64
    entries: i64
    #: The largest value so far (of an order), or whether there was too little room (of clusters).
    highest: i64
    #: The events that there were when it last awoke; -1: it begins with the next one.
    started: i64
    phase: i64
    #: The events that there were when it began to prove.
    proved: i64
    #: Distances that it took into account.
    observed: i64
    #: What it has saved: the bytes of each evicted row, for the time that the row would have stayed.
    saved: i64
    #: The column that a message shows of an event that breaks it; of the first such event the distance
    #: and the value.
    example: i64
    broken_by: i64
    broken_value: i64
    #: The threshold of distances in time (0: it never measures time), and the instant at which it last
    #: awoke.
    time_threshold: i64
    began: i64
    #: Whether the values are floats.
    floating: i64


@record
class Edge(Record):
    """Two inputs with a common key, seen from one of them."""

    #: The other input, its index of the common key, and the own index of it.
    other: i64
    index: i64
    own: i64
    #: The number of the edge as the other input sees it.
    back: i64
    #: The watch of how long rows of the other input wait for rows of this one.
    watch: i64
    #: Bits of the own indexes that have all of the common key, if there is no other way between the two
    #: inputs (else 0).
    mask: i64


@record
class Criterion(Record):
    """How a watch lets rows of an input leave."""

    watch: i64
    #: The edge of the input that it is about, and the column of the row that is compared.
    edge: i64
    column: i64
    #: Whether it is about the partners that a row waits for (`WAITING`), or about the rows that look it
    #: up (`ASKED`).
    role: i64
    #: Whether the row that is looked at leaves because of it.
    applies: i64


@record
class EventFeed(Feed):
    """The rows that have arrived from one input."""

    #: Of a relation: the first row after the instant that is taken.
    end: i64
    #: Of a sample: the next of its events, and the first one of another input.
    next_sampled: i64
    end_sampled: i64


@record
class Step(Record):
    """A probe of the plan."""

    input: i64
    index: i64
    #: Where each column of the key is taken from.
    sources: Source


@record
class Level(Record):
    """The state of the search at one probe: the hash of the key, and the next slot to look at."""

    hash: i64
    slot: i64


@record
class Shown(Record):
    """A column that the residual reads, and its column in the row of the residual."""

    input: i64
    column: i64
    target: i64


@record
class Noted(Record):
    """An input, and one of its rows: a slot, a number, or an address. Two words of a vector."""

    input: i64
    row: i64


@record
class AbsentKeys(Record):
    """Keys of which no row is on disk, each in the one place that it may have."""

    entries: Words
    #: The number of places, a power of two, less one.
    mask: i64


@record
class Ahead(Record):
    """A row that is taken soon, and the hash of its key in the leading index."""

    row: Words
    hash: i64


@record
class Frame(Record):
    """The frame of a constraint join."""

    inputs: i64
    stores: Store
    indexes: Index
    feeds: EventFeed
    #: For each input that drives, the probes of the others.
    steps: Step
    levels: Level
    bound: Bound
    #: For each input, as many edges as there are inputs.
    edges: Edge
    watches: Watch
    watch_count: i64
    #: By which the rows of an input are collected; those of one edge are together.
    criteria: Criterion
    criterion_count: i64
    #: The current instant.
    now: i64
    #: The row that the residual reads, the word of its first column, and what is copied there.
    asked: Words
    asked_base: i64
    shown: Shown
    shown_count: i64
    constants: Words
    strings: i64
    #: The output rows, their number, the word of their first column, their width, and their columns.
    out: Annotated[Vector, 1]
    out_rows: i64
    out_base: i64
    out_width: i64
    emit: Source
    emitted: i64
    #: When results expire: for each, `expiry_words` words (0: that isn't noted).
    expiries: Annotated[Vector, 1]
    expiry_words: i64
    #: Rows of the other inputs that are in a result of this event.
    in_results: Annotated[Vector, 1]
    #: Room for the held row of the event.
    event: Words
    absent: AbsentKeys
    #: A key whose rows must be brought back from disk.
    wanted_index: i64
    wanted_hash: i64
    #: Whether rows that are evicted go to disk (else they are dropped), and how many of 1024 of those
    #: that would be dropped are sampled.
    spills: i64
    samples: i64
    #: Events that may be taken before the loop returns, and whether rows should be collected now.
    budget: i64
    due: i64
    #: One key in so many is sampled beside a join that is done elsewhere; 0: the join is done here.
    sampling: i64
    #: What rows that were evicted have saved (`eviction.still_to_come`).
    saved: i64
    #: Where rows are dropped: results, results that would be lost but for sampled rows, and these by
    #: what dropped the row (`eviction.py`).
    results: i64
    lost: i64
    lost_by: Words


@record
class ChangesFrame(Frame):
    """The frame of a constraint join of relations."""

    #: Whether the output is read for what comes only.
    only_coming: i64
    #: Rows of the current instant that go and were not held when it began (addresses); if the output is
    #: read for what comes only, rows that leave when the instant is over (slots).
    pending: Annotated[Vector, 1]
    #: The pass through the rows of an instant that is under way (-1: none), and the row that it is at.
    passing: i64
    pass_row: i64
    #: Rows that may come or go before the loop returns.
    turns: i64
    #: Whether constraints are observed.
    observes: i64
    #: Whether a row that has had its only result is spilled when the result comes (else when it goes).
    early: i64
    #: The next rows.
    ahead: Ahead
    ahead_count: i64
    #: If the output is read for what comes only: whether results of the current instant may still go
    #: (0, `GOES`, `WENT`).
    unsure: i64
    #: Whether rows should be collected as soon as the instant is over.
    owed: i64
