"""s_join, c_join: joins with one predicate become one m-op, whatever windows they are over.

    A [Range 5 min], B [Range 5 min] -> join a = b -> Q1       A, B -> join a = b -> Q1
    A [Range 1 h],   B [Range 2 h]   -> join a = b -> Q2   =>                     -> Q2

`s_join` puts joins of one definition together; constants that are asked of the combinations are
data. `c_join` is precision sharing: a row is held once, with the set of members that it is for,
and a combination that is found once is that of all members that both rows are for. Without it,
each member has its own rows.

>>> S_JOIN.name, C_JOIN.name
('s_join', 'c_join')
"""

from __future__ import annotations

from braid.optimizer.operators import JOIN, Operator, Rule, Sharing


def is_join(operator: Operator) -> bool:
    return operator.kind == JOIN


def share(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("s_join", (JOIN, inputs, operator.definition))


def reads_a_channel(operator: Operator) -> bool:
    return is_join(operator) and any(channel.membered for channel in operator.inputs)


def hold_once(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.flagged("c_join", shared=True)


S_JOIN = Rule("s_join", is_join, share, "joins of one predicate share one m-op")
C_JOIN = Rule("c_join", reads_a_channel, hold_once, "a row is held once for all its members")
