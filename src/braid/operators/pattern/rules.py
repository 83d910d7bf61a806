"""The rules for sequences and iterations: `s_seq`, `s_mu`, `t_seq`, `t_mu`, `c_seq`, `c_mu`.

s_seq, s_mu: sequences (iterations) with one definition over the same two streams are one.

    A, B -> sequence p -> select q1 -> Q1        A, B -> sequence p -> select {q1, q2} -> Q1
    A, B -> sequence p -> select q2 -> Q2   =>                                         -> Q2

State merging of Cayuga: queries that agree up to here wait in one state, and an instance of it
is an instance of each of them. Since definitions and inputs are equal, so are the instances;
what the queries do with them afterwards is theirs. Applied bottom-up, prefixes merge.

t_seq, t_mu: sequences (iterations) of one shape are one m-op, their constants in tables.

    A, B -> sequence a = $1.a AND b > 5 -> Q1        A, B -> sequence a = $1.a AND b > :0
    A, B -> sequence a = $1.a AND b > 9 -> Q2   =>           Q1: 5, Q2: 9

Beyond table 5.1: definitions need not be equal, only their shape. Instances are those of each
member as if it were alone, found through one index by the values that they have bound (AI) and
by the constants that members ask of an event (AN); generated code exists once.

c_seq, c_mu: sequences (iterations) with one definition over the streams of a channel are one.

    C = {S1, ..., Sn}, T -> sequence p of S1 -> Q1       C, T -> sequence p -> D = {Q1, ..., Qn}
    ...                                             =>
    C                , T -> sequence p of Sn -> Qn

Channel-based sharing (section 5.4.4): the first inputs are sharable and come from one m-op, the
second is the same. An event of the channel starts one instance for all its members, which
keeps the set of them; when it is completed, the composite is each member's. A query whose
stream the event does not belong to is not among the members, so it gets what it got before.

>>> S_SEQ.name, S_MU.name
('s_seq', 's_mu')
>>> T_SEQ.name, T_MU.name
('t_seq', 't_mu')
>>> C_SEQ.name, C_MU.name
('c_seq', 'c_mu')
"""

from __future__ import annotations

from braid.plan.sharing import ITERATE, SEQUENCE, Operator, Rule, Sharing


def _inputs(operator: Operator) -> tuple[str, ...]:
    return tuple(channel.signature for channel in operator.inputs)


def _merging(name: str, kind: str, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        return operator.kind == kind

    def merge(operator: Operator, sharing: Sharing) -> Sharing:
        key = (kind, _inputs(operator), operator.definition, operator.constants)
        return sharing.by(name, key, merged=True)

    return Rule(name, condition, merge, says)


def _tabulating(name: str, kind: str, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        return operator.kind == kind

    def tabulate(operator: Operator, sharing: Sharing) -> Sharing:
        return sharing.by(name, (kind, _inputs(operator), operator.definition))

    return Rule(name, condition, tabulate, says)


def _encoding(name: str, kind: str, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        # Without members there is nothing to keep a set of.
        return operator.kind == kind and operator.inputs[0].membered

    def encode(operator: Operator, sharing: Sharing) -> Sharing:
        return sharing.flagged(name, channels=True)

    return Rule(name, condition, encode, says)


S_SEQ = _merging("s_seq", SEQUENCE, "equal sequences of the same streams are one state")
S_MU = _merging("s_mu", ITERATE, "equal iterations over the same streams are one state")
T_SEQ = _tabulating("t_seq", SEQUENCE, "sequences of one shape share one m-op")
T_MU = _tabulating("t_mu", ITERATE, "iterations of one shape share one m-op")
C_SEQ = _encoding("c_seq", SEQUENCE, "an instance serves all members of a channel's event")
C_MU = _encoding("c_mu", ITERATE, "an iteration serves all members of a channel's event")
