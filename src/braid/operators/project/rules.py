"""The rules for projections: `s_pi`, `c_pi`.

s_pi: equal projections of one stream are one.

    S -> project a, b -> Q1        S -> project a, b -> Q1, Q2
    S -> project a, b -> Q2   =>

Common subexpression elimination: equal definition, equal input, equal output.

c_pi: equal projections of the streams that one channel encodes are computed once an event.

    C = {S1, ..., Sn} -> project a of S1 -> Q1       C -> project a -> D = {Q1, ..., Qn}
    ...                                         =>
    C                 -> project a of Sn -> Qn

The members of an event stay its members: one projection stands for all of them. If constants
of the queries are asked, it is computed once for each member.

>>> S_PI.name
's_pi'
>>> C_PI.name
'c_pi'
"""

from __future__ import annotations

from braid.plan.sharing import PROJECT, Operator, Rule, Sharing


def _rule(name: str, membered: bool, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        return operator.kind == PROJECT and operator.inputs[0].membered is membered

    def merge(operator: Operator, sharing: Sharing) -> Sharing:
        return sharing.by(name, (PROJECT, operator.inputs[0].signature, operator.definition))

    return Rule(name, condition, merge, says)


S_PI = _rule("s_pi", False, "equal projections of one stream are one")
C_PI = _rule("c_pi", True, "a projection of a channel is computed once an event")
