"""Documents by their texts; the last ones are kept."""

from __future__ import annotations

from collections import OrderedDict

from braid.algebra.documents import is_xml
from braid.mops.document_table import DocumentTable, Unreadable, read_xml
from braid.mops.json_table import read_json

#: How many documents that were just read are kept, for those who read them again, and their size.
_KEPT, _KEPT_SIZE = 4096, 100_000


class _Recent:
    """The documents that were read last: ingest reads them first, the m-op right after it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, DocumentTable] = OrderedDict()

    def get(self, text: str) -> DocumentTable:
        known = self._known.get(text)
        if known is None:
            known = (read_xml if is_xml(text) else read_json)(text)
            if len(text) <= _KEPT_SIZE:
                self._known[text] = known
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        else:
            self._known.move_to_end(text)
        return known


_RECENT = _Recent()


def document_of(text: str) -> DocumentTable:
    """The nodes of a document in XML or JSON, which is told by how it begins; raises `Unreadable`.

    What was just read is not read again.
    """
    return _RECENT.get(text)


def refusal(text: str, *, json: bool) -> str | None:
    """Why a text is not let in; None if it is a document of its kind."""
    try:
        if is_xml(text) is json:
            (read_json if json else read_xml)(text)  # says why it is none
        else:
            document_of(text)
    except Unreadable as error:
        return str(error)
    return None
