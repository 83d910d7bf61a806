"""Queries over documents, by their definitions; node tests are lxml's own XPath.

Documents in JSON are in `json_documents.py`.

A match of a block in a document binds every node of its pattern to an element or attribute. Two
matches are the same if all variables, and the block's root, are bound to the same nodes. The events
are: for one block, one for each match; for two, one for each pair of matches of documents d1 of
the first stream and d2 of the second with

    FOLLOWED BY   0 < t2 - t1 <= T
    JOIN          |t2 - t1| <= T        (a document may be paired with itself)

for which the predicate holds. Further blocks are joined with what other joins give, on their right or
on their left, whose time is that of its last document. `=` and `!=` compare the string values of nodes; the others
compare numbers as numbers, dates and times as times, and everything else as texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lxml import etree

from braid.algebra.documents import (
    DEEPEST,
    FOLLOWED_BY,
    LARGEST,
    PRECEDED_BY,
    TEXT,
    Axis,
    Block,
    Documents,
    PatternNode,
    Test,
    document_id,
    is_xml,
    number_of,
    order_of,
)
from braid.algebra.expressions import Expression, Literal
from braid.algebra.markup import escaped_text
from braid.reference.events import Event
from braid.reference.json_documents import JsonNode, parsed_json

_OPTIONS = {"resolve_entities": False, "no_network": True, "remove_comments": True}

#: What is looked for below an element, and from the document.
_BELOW = {
    Axis.CHILD: "./*",
    Axis.DESCENDANT: ".//*",
    Axis.ATTRIBUTE: "./@*",
    Axis.DESCENDANT_ATTRIBUTE: ".//@*",
}
_FROM_DOCUMENT = {
    Axis.CHILD: "/*",
    Axis.DESCENDANT: "//*",
    Axis.DESCENDANT_ATTRIBUTE: "//@*",
}


@dataclass(frozen=True)
class XmlNode:
    """A node of a document: an element, or one of its attributes."""

    element: Any
    attribute: str | None = None

    @property
    def value(self) -> str:
        if self.attribute is not None:
            return str(self.element.get(self.attribute))
        return str(self.element.xpath("string()"))

    @property
    def shown(self) -> str:
        if self.attribute is None:
            return etree.tostring(self.element, encoding="unicode", with_tail=False)
        made = etree.Element(etree.QName(self.attribute).localname)
        made.text = self.value
        return etree.tostring(made, encoding="unicode")


@dataclass(frozen=True)
class Match:
    """The bindings of what a block shows, by the numbers of its nodes, and of what is joined."""

    event: Event
    id: str
    nodes: tuple[XmlNode | JsonNode, ...]


@lru_cache(1024)
def parsed(text: str) -> Any:
    """A document as a tree; None for a text that is none.

    A declared stream lets only documents in, but a query may publish any text. What a document may
    be is the same for both: well-formed, without entities, of limited size and depth.
    """
    if len(text) > LARGEST:
        return None
    if not is_xml(text):
        return parsed_json(text, DEEPEST)
    parser = etree.XMLParser(remove_pis=True, **_OPTIONS)
    try:
        tree = etree.ElementTree(etree.fromstring(text.encode(), parser))
    except (etree.XMLSyntaxError, ValueError):
        return None
    dtd = tree.docinfo.internalDTD
    if dtd is not None and any(True for _ in dtd.iterentities()):
        return None
    depth = max(len(list(element.iterancestors())) + 1 for element in tree.iter())
    return tree if depth <= DEEPEST else None


def evaluate_documents(node: Documents, inputs: list[list[Event]]) -> list[Event]:
    found = [list(_matches(node, number, events)) for number, events in enumerate(inputs)]
    joined: list[tuple[Match, ...]] = [(match,) for match in found[0]]
    for number in range(1, len(node.blocks)):
        kind, window = node.kinds[number - 1], _value(node.windows[number - 1])
        joined = [
            (*before, match)
            for before in joined
            for match in found[number]
            if _near(kind, max(one.event.end for one in before), match.event.end, window)
            and _satisfied(node, (*before, match))
        ]
    return _distinct(node, joined)


def _near(kind: str, first: int, second: int, window: int) -> bool:
    if kind == FOLLOWED_BY:
        return 0 < second - first <= window
    if kind == PRECEDED_BY:
        return 0 < first - second <= window
    return abs(second - first) <= window


def _satisfied(node: Documents, parts: tuple[Match, ...]) -> bool:
    """Whether all comparisons hold that the last of these matches is part of."""
    return all(
        compared(
            join.operator,
            parts[join.blocks[0]].nodes[join.first].value,
            parts[join.blocks[1]].nodes[join.second].value,
        )
        for join in node.joins_with(len(parts) - 1)
    )


def compared(operator: str, left: str, right: str) -> bool:
    """Whether two string values compare so."""
    if operator == "=":
        return left == right
    if operator == "!=":
        return left != right
    (kind, first), (other, second) = order_of(left), order_of(right)
    if kind == other and kind != TEXT:
        return _ordered(operator, first, second)
    return _ordered(operator, left.encode(), right.encode())


def _ordered(operator: str, first: Any, second: Any) -> bool:
    return bool(
        {"<": first < second, "<=": first <= second, ">": first > second, ">=": first >= second}[
            operator
        ]
    )


def _value(expression: Expression | None) -> Any:
    assert isinstance(expression, Literal)
    return expression.value


# ---- one block ----


def _matches(node: Documents, number: int, events: Iterable[Event]) -> Iterator[Match]:
    schema = node.sources[number].schema
    for event in events:
        row = event.row(schema)
        text = row[node.columns[number]]
        if text is None:
            continue
        known = row.get("id")
        name = document_id(text, event.end) if known is None else str(known)
        tree = parsed(text)
        if tree is None:
            continue
        for nodes in _embeddings(node.blocks[number], tree, ()):
            yield Match(event, name, nodes)


def _embeddings(
    block: Block, tree: Any, bound: tuple[XmlNode | JsonNode, ...]
) -> Iterator[tuple[XmlNode | JsonNode, ...]]:
    """Every way to bind the nodes of a pattern, from the first on."""
    if len(bound) == len(block.nodes):
        yield bound
        return
    node = block.nodes[len(bound)]
    above = None if node.parent < 0 else bound[node.parent]
    reached = _reached_json if isinstance(tree, JsonNode) else _reached
    for found in reached(node, tree, above):
        if all(_passes(found, test) for test in node.tests):
            yield from _embeddings(block, tree, (*bound, found))


def _reached_json(node: PatternNode, tree: Any, above: Any) -> Iterator[JsonNode]:
    name = None if node.name is None else _value(node.name)
    if above is not None:
        found = list(above.reached(node.axis))
    else:
        starts = {Axis.CHILD: [tree], Axis.DESCENDANT: [tree, *tree.descendants]}
        found = starts.get(node.axis, [])
    yield from (one for one in found if name is None or one.name == name)


def _reached(node: PatternNode, tree: Any, above: Any) -> Iterator[XmlNode]:
    if above is None and node.axis is Axis.ATTRIBUTE:
        return
    path = (_FROM_DOCUMENT if above is None else _BELOW)[node.axis]
    start = tree if above is None else above.element
    name = None if node.name is None else _value(node.name)
    test = "" if name is None else "[local-name() = $name]"
    for found in start.xpath(path + test, name=name or ""):
        if node.axis >= Axis.ATTRIBUTE:
            yield XmlNode(found.getparent(), found.attrname)
        else:
            yield XmlNode(found)


def _passes(found: XmlNode | JsonNode, test: Test) -> bool:
    constant = _value(test.constant)
    if isinstance(constant, str):
        return compared(test.operator, found.value, constant)
    number = number_of(found.value)
    if number is None:
        return test.operator == "!="
    if test.operator in ("=", "!="):
        return (number == constant) is (test.operator == "=")
    return _ordered(test.operator, number, constant)


# ---- results ----


def _distinct(node: Documents, matches: Iterable[tuple[Match, ...]]) -> list[Event]:
    """One event for each binding of what is shown, of the same events of the streams."""
    seen: set[tuple[Any, ...]] = set()
    results = []
    for parts in matches:
        key = tuple(
            (id(match.event), *(match.nodes[i] for i in block.shown))
            for block, match in zip(node.blocks, parts, strict=True)
        )
        if key not in seen:
            seen.add(key)
            results.append(_result(node, parts))
    return results


def _result(node: Documents, parts: tuple[Match, ...]) -> Event:
    pairs = [(node.blocks[number], parts[number]) for number in node.written]
    values = [match.id for _, match in pairs]
    values += [match.nodes[i].value for block, match in pairs for _, i in block.variables]
    shown = [match.nodes[block.root] for block, match in pairs]
    values.append(shown[0].shown if len(shown) == 1 else _wrapped(shown))
    nodes = {name: match.nodes[i] for block, match in pairs for name, i in block.variables}
    values += [_copied(nodes[name]) for name in node.copied]
    start = min(match.event.start for match in parts)
    return Event(tuple(values), start, max(match.event.end for match in parts))


def _copied(node: XmlNode | JsonNode) -> str:
    """A node as the content of an element: an element with all that is below it, else its text."""
    if isinstance(node, XmlNode) and node.attribute is None:
        return node.shown
    return escaped_text(node.value)


def _wrapped(nodes: list[XmlNode | JsonNode]) -> str:
    """Below `result`, one after the other; what is XML is a text in JSON."""
    if all(isinstance(node, XmlNode) for node in nodes):
        return f"<result>{''.join(node.shown for node in nodes)}</result>"
    texts = [
        node.shown if isinstance(node, JsonNode) else json.dumps(node.shown, ensure_ascii=False)
        for node in nodes
    ]
    return f'{{"result": [{", ".join(texts)}]}}'
