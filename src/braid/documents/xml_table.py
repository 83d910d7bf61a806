"""A document as a table of its nodes; XML is read once by lxml with entities and network off.

Elements come first, in the order of the document, so that the number of one is its place in a
pre-order walk; then attributes. The string value of what has elements below it is worked out only
where somebody asks.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from json import detect_encoding
from typing import Any, cast

from lxml import etree

from braid.algebra.documents import DEEPEST, LARGEST
from braid.algebra.markup import escaped_text

#: What may stand before the root, besides the document type, and how it ends.
_PROLOG = {"<?": "?>", "<!--": "-->"}
#: lxml says twice where it was.
_PLACE = re.compile(r"(, line \d+, column \d+) \(<string>, line \d+\)\Z")
_TOO_DEEP = "Excessive depth in document"


#: How documents in bytes begin that are not in an encoding like ASCII; longer marks first.
_ENCODINGS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}
_DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z][\w.-]*)[\"']")


class Unreadable(Exception):
    """Why a text is no document that is let in, in words for a user."""


class DocumentTable(ABC):
    """The nodes of one document; `values` has the text of nodes without elements, else None."""

    __slots__ = ("elements", "names", "parents", "values")

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.names: list[str] = []
        self.parents: list[int] = []
        self.values: list[str | None] = []

    @property
    def count(self) -> int:
        return len(self.names)

    def value(self, number: int) -> str:
        """The string value of a node."""
        known = self.values[number]
        if known is None:
            known = self.values[number] = "".join(self._texts(number))
        return known

    @abstractmethod
    def _texts(self, number: int) -> Iterable[str]:
        """Every text in an element."""

    @abstractmethod
    def shown(self, number: int) -> str:
        """A node as a document."""

    def content(self, number: int) -> str:
        """A node as the content of an element of XML: its text, if it is no element itself."""
        return escaped_text(self.value(number))


class XmlTable(DocumentTable):
    """Elements and, after them, attributes."""

    __slots__ = ("attributes", "root")

    def __init__(self, root: Any) -> None:
        super().__init__()
        self.root = root
        self.attributes: list[tuple[int, str]] = []
        self._walk()

    def _walk(self) -> None:
        todo = [(self.root, -1, 1)]
        while todo:
            element, parent, depth = todo.pop()
            check_depth(depth)
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

    def _texts(self, number: int) -> Iterable[str]:
        return cast("Iterable[str]", self.elements[number].itertext())

    def content(self, number: int) -> str:
        return self.shown(number) if number < len(self.elements) else super().content(number)

    def shown(self, number: int) -> str:
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


def check_size(text: str) -> None:
    if len(text) > LARGEST:
        raise _larger()


def check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise _deeper()


def _larger() -> Unreadable:
    return Unreadable(f"the document is larger than {LARGEST:,} characters")


def _deeper() -> Unreadable:
    return Unreadable(f"the document is deeper than {DEEPEST} levels")


def read_xml(text: str) -> XmlTable:
    """The nodes of a document; raises `Unreadable`."""
    check_size(text)
    if "<!ENTITY" in text and _has_type(text):
        raise Unreadable("the document declares entities")
    try:
        root = etree.fromstring(text.encode(), _parser())
    except (etree.XMLSyntaxError, ValueError, UnicodeError) as error:
        if _TOO_DEEP in str(error):
            raise _deeper() from None
        reason = _PLACE.sub(r"\1", str(error)).replace("\n", "")
        raise Unreadable(f"the document is not well-formed: {reason}") from None
    return XmlTable(root)


def _has_type(text: str) -> bool:
    """Whether a document type is declared: nowhere else can entities be."""
    text = text.lstrip("\ufeff")
    while True:
        text = text.lstrip()
        ends = [end for begin, end in _PROLOG.items() if text.startswith(begin)]
        if not ends or ends[0] not in text:
            return text.startswith("<!DOCTYPE")
        text = text[text.index(ends[0]) + len(ends[0]) :]


def decoded(data: bytes, *, json: bool) -> str:
    """A document that comes as bytes: in the encoding that it says, or UTF-8; raises `Unreadable`."""
    if len(data) > 4 * LARGEST:
        raise _larger()
    name = detect_encoding(data) if json else _encoding(data)
    try:
        return data.decode(name)
    except LookupError:
        raise Unreadable(f"the document has an unknown encoding: {name}") from None
    except UnicodeError:
        raise Unreadable(f"the document is not well-formed: it is not in {name}") from None


def _encoding(data: bytes) -> str:
    """As the XML recommendation tells it: a mark at the beginning, or the declaration."""
    for mark, name in _ENCODINGS.items():
        if data.startswith(mark):
            return name
    said = _DECLARED.match(data)
    return said[1].decode() if said else "utf-8"
