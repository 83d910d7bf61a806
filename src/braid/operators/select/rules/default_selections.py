"""d_sigma: selections of one stream become one m-op that tests one predicate after the other.

    S -> select p1 -> Q1          S -> select {p1, p2} -> Q1
    S -> select p2 -> Q2   =>                          -> Q2

The default rule of RUMOR: where no better rule applies, operators that read the same stream are
still evaluated together, on one pass over the events. Each query gets the events for which its
own predicate is true, as before.

>>> D_SIGMA.name
'd_sigma'
"""

from __future__ import annotations

from braid.plan.sharing import SELECT, Operator, Rule, Sharing


def reads_a_stream(operator: Operator) -> bool:
    return operator.kind == SELECT and not operator.inputs[0].membered


def test_in_turn(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.by("d_sigma", (SELECT, operator.inputs[0].signature), indexed=False)


D_SIGMA = Rule(
    "d_sigma", reads_a_stream, test_in_turn, "selections of one stream are evaluated together"
)
