"""s_seq, s_mu: sequences (iterations) with one definition over the same two streams are one.

    A, B -> sequence p -> select q1 -> Q1        A, B -> sequence p -> select {q1, q2} -> Q1
    A, B -> sequence p -> select q2 -> Q2   =>                                         -> Q2

State merging of Cayuga: queries that agree up to here wait in one state, and an instance of it
is an instance of each of them. Since definitions and inputs are equal, so are the instances;
what the queries do with them afterwards is theirs. Applied bottom-up, prefixes merge.

>>> S_SEQ.name, S_MU.name
('s_seq', 's_mu')
"""

from __future__ import annotations

from braid.plan.sharing import ITERATE, SEQUENCE, Operator, Rule, Sharing


def _rule(name: str, kind: str, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        return operator.kind == kind

    def merge(operator: Operator, sharing: Sharing) -> Sharing:
        inputs = tuple(channel.signature for channel in operator.inputs)
        key = (kind, inputs, operator.definition, operator.constants)
        return sharing.by(name, key, merged=True)

    return Rule(name, condition, merge, says)


S_SEQ = _rule("s_seq", SEQUENCE, "equal sequences of the same streams are one state")
S_MU = _rule("s_mu", ITERATE, "equal iterations over the same streams are one state")
