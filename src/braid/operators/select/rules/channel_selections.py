"""c_sigma: selections of the streams that one channel encodes become one m-op.

    C = {S1, ..., Sn} -> select p1 of S1 -> Q1       C -> select {p1, ..., pn} -> Q1
    ...                                         =>                             -> ...
    C                 -> select pn of Sn -> Qn                                 -> Qn

The streams are sharable: one m-op produces them, so an event of several of them is one event of
the channel, with its members. A predicate is tested for the events of its own stream only.

>>> C_SIGMA.name
'c_sigma'
"""

from __future__ import annotations

from braid.plan.sharing import SELECT, Operator, Rule, Sharing


def reads_a_channel(operator: Operator) -> bool:
    return operator.kind == SELECT and operator.inputs[0].membered


def index_members(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.by("c_sigma", (SELECT, operator.inputs[0].signature), indexed=True)


C_SIGMA = Rule("c_sigma", reads_a_channel, index_members, "selections of a channel share an index")
