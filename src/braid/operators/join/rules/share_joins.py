"""s_join, c_join: joins with one predicate become one m-op, whatever windows they are over.

    A [Range 5 min], B [Range 5 min] -> join a = b -> Q1       A, B -> join a = b -> Q1
    A [Range 1 h],   B [Range 2 h]   -> join a = b -> Q2   =>                     -> Q2

`s_join` merges joins of one definition over the same relations, `c_join` those over the relations
that channels encode, such as windows of different sizes and what selections with different
constants leave of them. That is precision sharing: a row is held once, with the set of members
that it is for, and a combination that is found once is that of all members that its rows are for.
Constants that are asked of combinations are data.

>>> S_JOIN.name, C_JOIN.name
('s_join', 'c_join')
"""

from __future__ import annotations

from braid.plan.sharing import JOIN, Operator, Rule, Sharing


def _rule(name: str, membered: bool, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        reads_a_channel = any(channel.membered for channel in operator.inputs)
        return operator.kind == JOIN and reads_a_channel is membered

    def merge(operator: Operator, sharing: Sharing) -> Sharing:
        inputs = tuple(channel.signature for channel in operator.inputs)
        return sharing.by(name, (JOIN, inputs, operator.definition))

    return Rule(name, condition, merge, says)


S_JOIN = _rule("s_join", False, "joins of one predicate over the same relations are one")
C_JOIN = _rule("c_join", True, "joins over channels share one m-op, and hold a row once")
