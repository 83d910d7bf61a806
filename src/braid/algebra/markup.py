"""How text becomes part of an XML document: names, characters, escapes.

XML 1.0 cannot hold most control characters, nor U+FFFE and U+FFFF, in any form. Where a value has
one, U+FFFD, the replacement character, takes its place: a document that is built is well-formed
whatever its values are.
"""

from __future__ import annotations

import re

_START = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
#: A name without a prefix.
NAME = f"[{_START}][{_START}.0-9\u00b7\u0300-\u036f\u203f\u2040-]*"

#: What no XML document can hold; in the syntax that Python's and Arrow's expressions share.
NOT_IN_XML = "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\ufffe\uffff]"
REPLACEMENT = "\ufffd"

#: In the text of an element; the first comes first, since the others have it in them.
TEXT_ESCAPES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;"))
#: In the value of an attribute, where a reader would take other space for a blank; and in text.
ATTRIBUTE_ESCAPES = (
    *TEXT_ESCAPES,
    ('"', "&quot;"),
    ("'", "&#39;"),
    ("\t", "&#9;"),
    ("\n", "&#10;"),
)

_NOT_IN_XML = re.compile(NOT_IN_XML)


def escaped_text(text: str) -> str:
    """A text as the content of an element."""
    return _escaped(text, TEXT_ESCAPES)


def escaped_attribute(text: str) -> str:
    """A text as the value of an attribute, in quotes of either kind; or as content."""
    return _escaped(text, ATTRIBUTE_ESCAPES)


def _escaped(text: str, escapes: tuple[tuple[str, str], ...]) -> str:
    for character, escape in escapes:
        if character in text:
            text = text.replace(character, escape)
    return _NOT_IN_XML.sub(REPLACEMENT, text)
