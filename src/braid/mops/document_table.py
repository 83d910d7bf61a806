"""A document as a table of its nodes, read once by lxml with entities and network off.

Elements come first, in the order of the document, so that the number of one is its place in a
pre-order walk; then attributes. The string value of what has elements below it is worked out only
where somebody asks.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

from lxml import etree

#: Documents that are larger, or deeper, are refused.
LARGEST = 10_000_000
DEEPEST = 200
#: How many documents that were just read are kept, for those who read them again, and their size.
_KEPT, _KEPT_SIZE = 4096, 100_000

_ENTITIES = re.compile(r"<!DOCTYPE[^>\[]*\[.*?<!ENTITY", re.DOTALL)


class Unreadable(Exception):
    """Why a text is no document that is let in, in words for a user."""


class DocumentTable:
    """The nodes of one document; `values` has the text of nodes without elements, else None."""

    __slots__ = ("attributes", "elements", "names", "parents", "root", "values")

    def __init__(self, root: Any) -> None:
        self.root = root
        self.elements: list[Any] = []
        self.names: list[str] = []
        self.parents: list[int] = []
        self.values: list[str | None] = []
        self.attributes: list[tuple[int, str]] = []
        self._walk()

    def _walk(self) -> None:
        todo = [(self.root, -1, 1)]
        while todo:
            element, parent, depth = todo.pop()
            if depth > DEEPEST:
                raise Unreadable(f"the document is deeper than {DEEPEST} levels")
            number = len(self.elements)
            self.elements.append(element)
            self.names.append(_local(element.tag))
            self.parents.append(parent)
            if len(element):
                self.values.append(None)
                todo += [(child, number, depth + 1) for child in reversed(element)]
            else:
                self.values.append(element.text or "")
            for name in element.attrib:
                self.attributes.append((number, name))
        for number, name in self.attributes:
            self.names.append(_local(name))
            self.parents.append(number)
            self.values.append(self.elements[number].get(name))

    @property
    def count(self) -> int:
        return len(self.names)

    def value(self, number: int) -> str:
        """The string value of a node."""
        known = self.values[number]
        if known is None:
            known = self.values[number] = "".join(self.elements[number].itertext())
        return known

    def xml(self, number: int) -> str:
        """A node as a document; an attribute becomes an element of its name."""
        if number < len(self.elements):
            element = self.elements[number]
            return str(etree.tostring(element, encoding="unicode", with_tail=False))
        made = etree.Element(self.names[number])
        made.text = self.value(number)
        return str(etree.tostring(made, encoding="unicode"))


def _local(name: str) -> str:
    return name[name.index("}") + 1 :] if name[0] == "{" else name


def _parser() -> Any:
    return etree.XMLParser(
        encoding="utf-8",  # a text has been decoded: whatever it declares, it is no longer true
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )


def read_document(text: str) -> DocumentTable:
    """The nodes of a document; raises `Unreadable`."""
    if len(text) > LARGEST:
        raise Unreadable(f"the document is larger than {LARGEST:,} characters")
    if "<!ENTITY" in text and _ENTITIES.search(text):
        raise Unreadable("the document declares entities")
    try:
        root = etree.fromstring(text.encode(), _parser())
    except (etree.XMLSyntaxError, ValueError, UnicodeError) as error:
        raise Unreadable(f"the document is not well-formed: {error}") from None
    return DocumentTable(root)


class _Recent:
    """The documents that were read last: ingest reads them first, the m-op right after it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, DocumentTable] = OrderedDict()

    def get(self, text: str) -> DocumentTable:
        known = self._known.get(text)
        if known is None:
            known = read_document(text)
            if len(text) <= _KEPT_SIZE:
                self._known[text] = known
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        else:
            self._known.move_to_end(text)
        return known


_RECENT = _Recent()


def document_of(text: str) -> DocumentTable:
    """As `read_document`, which is not done again for a text that was just read."""
    return _RECENT.get(text)


def refusal(text: str) -> str | None:
    """Why a text is not let in; None if it is a document."""
    try:
        document_of(text)
    except Unreadable as error:
        return str(error)
    return None
