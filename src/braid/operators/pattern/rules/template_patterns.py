"""t_seq, t_mu: sequences (iterations) of one shape are one m-op, their constants in tables.

    A, B -> sequence a = $1.a AND b > 5 -> Q1        A, B -> sequence a = $1.a AND b > :0
    A, B -> sequence a = $1.a AND b > 9 -> Q2   =>           Q1: 5, Q2: 9

Beyond table 5.1: definitions need not be equal, only their shape. Instances are those of each
member as if it were alone, found through one index by the values that they have bound (AI) and
by the constants that members ask of an event (AN); generated code exists once.

>>> T_SEQ.name, T_MU.name
('t_seq', 't_mu')
"""

from __future__ import annotations

from braid.plan.sharing import ITERATE, SEQUENCE, Operator, Rule, Sharing


def _rule(name: str, kind: str, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        return operator.kind == kind

    def tabulate(operator: Operator, sharing: Sharing) -> Sharing:
        inputs = tuple(channel.signature for channel in operator.inputs)
        return sharing.by(name, (kind, inputs, operator.definition))

    return Rule(name, condition, tabulate, says)


T_SEQ = _rule("t_seq", SEQUENCE, "sequences of one shape share one m-op")
T_MU = _rule("t_mu", ITERATE, "iterations of one shape share one m-op")
