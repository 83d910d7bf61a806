"""c_pi: equal projections of the streams that one channel encodes are computed once an event.

    C = {S1, ..., Sn} -> project a of S1 -> Q1       C -> project a -> D = {Q1, ..., Qn}
    ...                                         =>
    C                 -> project a of Sn -> Qn

The members of an event stay its members: one projection stands for all of them. If constants
of the queries are asked, it is computed once for each member.

>>> C_PI.name
'c_pi'
"""

from __future__ import annotations

from braid.plan.sharing import PROJECT, Operator, Rule, Sharing


def reads_a_channel(operator: Operator) -> bool:
    return operator.kind == PROJECT and operator.inputs[0].membered


def merge(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.by("c_pi", (PROJECT, operator.inputs[0].signature, operator.definition))


C_PI = Rule("c_pi", reads_a_channel, merge, "a projection of a channel is computed once an event")
