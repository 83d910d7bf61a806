"""s_pi: equal projections of one stream are one.

    S -> project a, b -> Q1        S -> project a, b -> Q1, Q2
    S -> project a, b -> Q2   =>

Common subexpression elimination: equal definition, equal input, equal output.

>>> S_PI.name
's_pi'
"""

from __future__ import annotations

from braid.plan.sharing import PROJECT, Operator, Rule, Sharing


def reads_a_stream(operator: Operator) -> bool:
    return operator.kind == PROJECT and not operator.inputs[0].membered


def merge(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.by("s_pi", (PROJECT, operator.inputs[0].signature, operator.definition))


S_PI = Rule("s_pi", reads_a_stream, merge, "equal projections of one stream are one")
