"""s_sigma: selections of one stream become one m-op with an index of their predicates.

    S -> select p1 -> Q1          S -> select {p1, ..., pn}, indexed -> Q1
    ...                    =>                                        -> ...
    S -> select pn -> Qn                                             -> Qn

Predicate indexing (table 5.1, first row): for each event the index gives exactly the predicates
that are true for it, so each query gets the same events. It is also what the FR index of a
state is, where the stream is the output of a pattern.

>>> S_SIGMA.name
's_sigma'
"""

from __future__ import annotations

from braid.operators.select.rules.default_selections import reads_a_stream
from braid.plan.sharing import SELECT, Operator, Rule, Sharing


def index(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.by("s_sigma", (SELECT, operator.inputs[0].signature), indexed=True)


S_SIGMA = Rule("s_sigma", reads_a_stream, index, "selections of one stream share an index")
