"""The rules for unions and aggregations of one instant: `s_union`, `s_beta`, `t_beta`, `c_beta`.

s_union, s_beta: equal unions, and equal aggregations of one instant, are one.

    S, T -> union -> Q1        S, T -> union -> Q1, Q2
    S, T -> union -> Q2   =>

Common subexpression elimination, as for projections.

t_beta: aggregations of one instant with the same aggregates over one channel are one m-op.

    S -> {select k = 1, ...} -> same time max(v) -> Q1        S -> {...} -> same time max(v) -> Q1
    S -> {..., select k = 2} -> same time max(v) -> Q2   =>                                  -> Q2

Events of different members never meet: the m-op aggregates the events of each node apart. Births of
queries are data of the nodes.

c_beta: nodes that see the same events of an instant have one result.

    C = {S1, ..., Sn} -> same time max(v) of S1 -> Q1       C -> same time max(v) -> D = {Q1, ..., Qn}
    ...                                                =>
    C                 -> same time max(v) of Sn -> Qn

The streams of a channel often have the same events of an instant. What is computed of these is
computed once and is each member's.

>>> S_UNION.name, S_BETA.name
('s_union', 's_beta')
>>> T_BETA.name, C_BETA.name
('t_beta', 'c_beta')
"""

from __future__ import annotations

from braid.plan.sharing import SAME_TIME, UNION, Operator, Rule, Sharing


def _merging(name: str, kind: str, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        return operator.kind == kind

    def merge(operator: Operator, sharing: Sharing) -> Sharing:
        inputs = tuple(channel.signature for channel in operator.inputs)
        return sharing.by(name, (kind, inputs, operator.definition, operator.constants))

    return Rule(name, condition, merge, says)


def _is_same_time(operator: Operator) -> bool:
    return operator.kind == SAME_TIME


def _tabulate(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("t_beta", (SAME_TIME, inputs, operator.definition))


def _has_members(operator: Operator) -> bool:
    return operator.kind == SAME_TIME and operator.inputs[0].membered


def _encode(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.flagged("c_beta", shared=True)


S_UNION = _merging("s_union", UNION, "equal unions are one")
S_BETA = _merging("s_beta", SAME_TIME, "equal aggregations of one instant are one")
T_BETA = Rule(
    "t_beta",
    _is_same_time,
    _tabulate,
    "aggregations of one instant over one channel share one m-op",
)
C_BETA = Rule(
    "c_beta",
    _has_members,
    _encode,
    "nodes that see the same events of an instant have one result",
)
