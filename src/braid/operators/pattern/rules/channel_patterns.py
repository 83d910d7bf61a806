"""c_seq, c_mu: sequences (iterations) with one definition over the streams of a channel are one.

    C = {S1, ..., Sn}, T -> sequence p of S1 -> Q1       C, T -> sequence p -> D = {Q1, ..., Qn}
    ...                                             =>
    C                , T -> sequence p of Sn -> Qn

Channel-based sharing (section 5.4.4): the first inputs are sharable and come from one m-op, the
second is the same. An event of the channel starts one instance for all its members, which
keeps the set of them; when it is completed, the composite is each member's. A query whose
stream the event does not belong to is not among the members, so it gets what it got before.

>>> C_SEQ.name, C_MU.name
('c_seq', 'c_mu')
"""

from __future__ import annotations

from braid.plan.sharing import ITERATE, SEQUENCE, Operator, Rule, Sharing


def _rule(name: str, kind: str, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        # Without members there is nothing to keep a set of.
        return operator.kind == kind and operator.inputs[0].membered

    def encode(operator: Operator, sharing: Sharing) -> Sharing:
        return sharing.flagged(name, channels=True)

    return Rule(name, condition, encode, says)


C_SEQ = _rule("c_seq", SEQUENCE, "an instance serves all members of a channel's event")
C_MU = _rule("c_mu", ITERATE, "an iteration serves all members of a channel's event")
