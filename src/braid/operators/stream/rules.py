"""s_union, s_beta: equal unions, and equal aggregations of one instant, are one.

    S, T -> union -> Q1        S, T -> union -> Q1, Q2
    S, T -> union -> Q2   =>

Common subexpression elimination, as for projections.

>>> S_UNION.name, S_BETA.name
('s_union', 's_beta')
"""

from __future__ import annotations

from braid.plan.sharing import SAME_TIME, UNION, Operator, Rule, Sharing


def _rule(name: str, kind: str, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        return operator.kind == kind

    def merge(operator: Operator, sharing: Sharing) -> Sharing:
        inputs = tuple(channel.signature for channel in operator.inputs)
        return sharing.by(name, (kind, inputs, operator.definition))

    return Rule(name, condition, merge, says)


S_UNION = _rule("s_union", UNION, "equal unions are one")
S_BETA = _rule("s_beta", SAME_TIME, "equal aggregations of one instant are one")
