"""The family of queries over documents: XML and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from braid.algebra.documents import Documents
from braid.algebra.nodes import Node
from braid.operators.core.family import Family, MopKind
from braid.operators.documents.explain import document_lines, mop_lines
from braid.operators.documents.planning import documents
from braid.operators.documents.rules import S_XML
from braid.operators.documents.spec import DocumentsSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _documents(spec: DocumentsSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.documents.logic import DocumentsLogic

    return DocumentsLogic(spec, context)


def _query_lines(node: Node, name: str) -> Iterable[str]:
    return document_lines(node)


FAMILY = Family(
    "documents",
    mops=(MopKind(DocumentsSpec, "document query", _documents, mop_lines),),
    rules=(S_XML,),
    switches={
        "xml_order": "values of documents that are compared by order are kept in order",
        "xml_views": "joins of documents by value are worked out once for all templates, with a view cache",
    },
    plans={Documents: documents},
    explain_query=_query_lines,
)
