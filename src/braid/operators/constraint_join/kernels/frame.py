"""The frame of a join with constraints: what does not change while it runs, and what it leaves."""

from __future__ import annotations

#: Inputs; where stores, indexes, feeds, probes, levels of the search and bound rows are; the instant;
#: where the row of the residual is, its first column, what is copied there (triples: input,
#: column, column there) and how much of it; where the residual's constants and the strings are;
#: output rows, room and number, their first column and words, what is copied to them (pairs: input,
#: column, whether it is a float); whether results are followed until they go, where, words of each;
#: rows that are in a result of this event (pairs: input, slot), number and room; the record of the
#: event; keys that are known not to be aside; what was not found in memory (index, hash, or -1);
#: whether rows are put aside or dropped, and how many of 1024 are sampled; edges; watches and their
#: number; the rows that may be looked at before it stops; results of rows that were only sampled;
#: whether what is held should be gone through now; one key in so many is looked at, beside a join
#: that is done elsewhere (0: it is done here); what rows that left early have saved
#: (`eviction.still_to_come`); where rows are dropped, all results,
#: and where those of sampled rows are counted by what dropped the row (`eviction.py`).
(
    INPUTS,
    STORES_AT,
    INDEXES_AT,
    FEEDS_AT,
    STEPS_AT,
    LEVELS_AT,
    BOUND_AT,
    NOW,
    ASKED_AT,
    ASKED_BASE,
    SHOWN_AT,
    SHOWN,
    CONSTANTS_AT,
    STRINGS_AT,
    OUT_AT,
    OUT_ROOM,
    OUT_ROWS,
    OUT_BASE,
    OUT_WIDTH,
    EMIT_AT,
    EMITTED,
    GOING,
    GOING_AT,
    GOING_WORDS,
    DONE_AT,
    DONE,
    DONE_ROOM,
    EVENT_AT,
    KNOWN_AT,
    WANTED_INDEX,
    WANTED_HASH,
    SPILLS,
    SAMPLES,
    EDGES_AT,
    WATCHES_AT,
    WATCHES,
    BUDGET,
    LOST,
    DUE,
    LOOKING,
    LEFT_EARLY,
    RESULTS,
    LOST_BY_AT,
    FRAME,
) = range(44)

#: What comes from an input: rows, their number, bytes of a row, how far it is read; what must hold
#: of a row by itself (four words each: column, another column or -1, whether it is a float, whether
#: NULL is nothing); of a relation, the first row after the instant that is taken; of a look, the next
#: of the events that are looked at, and the first that is not one of the input's.
(
    FEED_ROWS_AT,
    FEED_ROWS,
    FEED_BYTES,
    FEED_ROW,
    CHECKS_AT,
    CHECKS,
    FEED_END,
    FEED_NEXT,
    FEED_WORDS,
) = range(9)

#: A probe: input, index, where the columns of the key are taken from (pairs: input, column).
STEP_INPUT, STEP_INDEX, STEP_SOURCES, STEP_WORDS = range(4)

#: A level of the search: hash of the key, next slot to look at.
AT_HASH, AT_SLOT, LEVEL_WORDS = range(3)

#: An edge of the join graph, seen from an input: the other input, that one's index of the common
#: key, the input's own one; the edge as the other sees it; the watch of how long rows of the
#: other wait for rows of this one; bits of the input's own indexes that have all of the common key,
#: if there is no other way between the two (else 0).
EDGE_OTHER, EDGE_INDEX, EDGE_OWN, EDGE_BACK, EDGE_WATCH, EDGE_MASK, EDGE_WORDS = range(7)
