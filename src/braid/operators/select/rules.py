"""The rules for selections: `d_sigma`, `s_sigma`, `c_sigma`.

d_sigma: selections of one stream become one m-op that tests one predicate after the other.

    S -> select p1 -> Q1          S -> select {p1, p2} -> Q1
    S -> select p2 -> Q2   =>                          -> Q2

The default rule of RUMOR: where no better rule applies, operators that read the same stream are
still evaluated together, on one pass over the events. Each query gets the events for which its
own predicate is true, as before.

s_sigma: selections of one stream become one m-op with an index of their predicates.

    S -> select p1 -> Q1          S -> select {p1, ..., pn}, indexed -> Q1
    ...                    =>                                        -> ...
    S -> select pn -> Qn                                             -> Qn

Predicate indexing (table 5.1, first row): for each event the index gives exactly the predicates
that are true for it, so each query gets the same events. It is also what the FR index of a
state is, where the stream is the output of a pattern.

c_sigma: selections of the streams that one channel encodes become one m-op.

    C = {S1, ..., Sn} -> select p1 of S1 -> Q1       C -> select {p1, ..., pn} -> Q1
    ...                                         =>                             -> ...
    C                 -> select pn of Sn -> Qn                                 -> Qn

The streams are sharable: one m-op produces them, so an event of several of them is one event of
the channel, with its members. A predicate is tested for the events of its own stream only.

>>> D_SIGMA.name
'd_sigma'
>>> S_SIGMA.name
's_sigma'
>>> C_SIGMA.name
'c_sigma'
"""

from __future__ import annotations

from braid.plan.sharing import SELECT, Operator, Rule, Sharing


def _reads_a_stream(operator: Operator) -> bool:
    return operator.kind == SELECT and not operator.inputs[0].membered


def _reads_a_channel(operator: Operator) -> bool:
    return operator.kind == SELECT and operator.inputs[0].membered


def _test_in_turn(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.by("d_sigma", (SELECT, operator.inputs[0].signature), indexed=False)


def _index(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.by("s_sigma", (SELECT, operator.inputs[0].signature), indexed=True)


def _index_members(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.by("c_sigma", (SELECT, operator.inputs[0].signature), indexed=True)


D_SIGMA = Rule(
    "d_sigma", _reads_a_stream, _test_in_turn, "selections of one stream are evaluated together"
)
S_SIGMA = Rule("s_sigma", _reads_a_stream, _index, "selections of one stream share an index")
C_SIGMA = Rule(
    "c_sigma", _reads_a_channel, _index_members, "selections of a channel share an index"
)
