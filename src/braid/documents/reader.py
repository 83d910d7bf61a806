"""Documents by their texts: each is parsed once by whoever takes it in, and once by the shard.

A `DocumentReader` belongs to one place that works on documents: an ingest task, or the shard of an
engine. In process both are one, so that a document is parsed once on its whole way. Within a batch
nothing is forgotten, however many documents it has. Between batches documents are kept that wait for
their time, and earlier ones that results show again and again, up to a number of characters; one that
has been worked on, and that no result showed, is of no more use.
"""

from __future__ import annotations

from braid.algebra.documents import is_xml
from braid.documents.json_table import read_json
from braid.documents.xml_table import DocumentTable, Unreadable, read_xml

#: How many characters of documents are kept between batches.
KEPT_SIZE = 1 << 21


class DocumentReader:
    """Parses documents, and knows those of the batch that is being worked on."""

    def __init__(self, kept_size: int = KEPT_SIZE) -> None:
        self._kept_size = kept_size
        #: In the order in which they came, or were shown last.
        self._known: dict[str, DocumentTable] = {}
        self._size = 0
        #: Those of this batch that have been worked on, and those that results show.
        self._done: set[str] = set()
        self._shown: set[str] = set()

    def work_on(self, text: str) -> DocumentTable:
        """The nodes of a document whose time has come; raises `Unreadable`."""
        self._done.add(text)
        return self.read(text)

    def show(self, text: str) -> DocumentTable:
        """The nodes of a document that a result shows: others may show it again."""
        self._shown.add(text)
        found = self.read(text)
        self._known[text] = self._known.pop(text)  # behind all others
        return found

    def read(self, text: str) -> DocumentTable:
        """The nodes of a document in XML or JSON, which is told by how it begins.

        Raises `Unreadable`.
        """
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = (read_xml if is_xml(text) else read_json)(text)
            self._size += len(text)
        return known

    def refusal(self, text: str, *, json: bool) -> str | None:
        """Why a text is not let in; None if it is a document of its kind."""
        try:
            if is_xml(text) is json:
                (read_json if json else read_xml)(text)  # says why it is none
            else:
                self.read(text)
        except Unreadable as error:
            return str(error)
        return None

    def settle(self) -> None:
        """A batch is done: forget what is of no more use, and what was not used for longest."""
        for text in self._done - self._shown:
            if self._known.pop(text, None) is not None:
                self._size -= len(text)
        self._done.clear()
        self._shown.clear()
        if self._size > self._kept_size:
            for text in list(self._known):
                del self._known[text]
                self._size -= len(text)
                if self._size <= self._kept_size:
                    break

    def clear(self) -> None:
        """Forget all documents."""
        self._known.clear()
        self._done.clear()
        self._shown.clear()
        self._size = 0
