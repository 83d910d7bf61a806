"""s_stream: the streams that are made of the relations of one channel are made by one m-op.

    R -> Istream -> Q1        R -> Istream -> Q1, Q2
    R -> Istream -> Q2   =>

Common subexpression elimination, as for projections; where the rows belong to members, so do
the events.

>>> S_STREAM.name
's_stream'
"""

from __future__ import annotations

from braid.plan.sharing import TO_STREAM, Operator, Rule, Sharing


def makes_a_stream(operator: Operator) -> bool:
    return operator.kind == TO_STREAM


def merge(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("s_stream", (TO_STREAM, inputs, operator.definition))


S_STREAM = Rule("s_stream", makes_a_stream, merge, "streams of one relation are made together")
