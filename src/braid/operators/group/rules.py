"""s_alpha, c_alpha: equal groups with equal aggregates become one m-op.

    R -> group by k -> Q1        R -> group by k -> Q1, Q2
    R -> group by k -> Q2   =>

`s_alpha` merges those of one relation, `c_alpha` those of the relations that one channel encodes,
such as windows of different sizes and what selections with different constants leave of them:

    C = {R1, ..., Rn} -> group by k of R1 -> Q1       C -> group by k -> D = {Q1, ..., Qn}
    ...                                          =>
    C                 -> group by k of Rn -> Qn

A member has groups of its own rows only. SELECT DISTINCT is a group without aggregates.

>>> S_ALPHA.name, C_ALPHA.name
('s_alpha', 'c_alpha')
"""

from __future__ import annotations

from braid.plan.sharing import GROUP, Operator, Rule, Sharing


def _rule(name: str, membered: bool, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        return operator.kind == GROUP and operator.inputs[0].membered is membered

    def merge(operator: Operator, sharing: Sharing) -> Sharing:
        return sharing.by(name, (GROUP, operator.inputs[0].signature, operator.definition))

    return Rule(name, condition, merge, says)


S_ALPHA = _rule("s_alpha", False, "equal groups of one relation are one")
C_ALPHA = _rule("c_alpha", True, "groups of the relations of a channel share one m-op")
