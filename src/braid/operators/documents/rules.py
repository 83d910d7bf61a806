"""s_xml: queries over the documents of the same streams become one m-op.

    S//book...[...] FOLLOWED BY{...} S//blog...  -> Q1          -> Q1
    S//blog...[...] FOLLOWED BY{...} S//blog...  -> Q2   =>  S  -> Q2

A document is parsed once, the blocks of all queries are one automaton over its nodes, its witnesses
are held once, and queries of one template are evaluated together.

>>> S_XML.name
's_xml'
"""

from __future__ import annotations

from braid.plan.sharing import DOCUMENTS, Operator, Rule, Sharing


def _is_documents(operator: Operator) -> bool:
    return operator.kind == DOCUMENTS


def _merge(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("s_xml", (DOCUMENTS, inputs, operator.definition))


S_XML = Rule("s_xml", _is_documents, _merge, "queries over the same documents are one")
