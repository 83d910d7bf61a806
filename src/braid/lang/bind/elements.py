"""Element constructors: syntax -> algebra. Expressions in braces become part of the document.

A variable of a block in the content of an element is copied with its subtree; every other value is
text. Copies are columns that a query over documents produces only for a reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from braid.algebra.documents import RESULT, Documents, is_subtree, subtree_of
from braid.algebra.expressions import Call, Expression, Literal, Parameter, Ref, Source, refs
from braid.algebra.nodes import Node, Select
from braid.algebra.types import STRING, sql_name
from braid.lang.bind.casts import castable, coerce, is_null
from braid.lang.bind.scopes import InputScope
from braid.lang.parse import syntax
from braid.lang.parse.problems import Gather, Problem

if TYPE_CHECKING:
    from braid.lang.bind.expressions import Expressions


def bind_markup(binder: Expressions, node: syntax.Markup) -> Expression:
    """The pieces of an element in order, well-formed for all values."""
    parts: list[Expression] = [Literal(node.texts[0], STRING)]
    gather = Gather()
    for value, inside, text in zip(node.values, node.inside, node.texts[1:], strict=True):
        with gather:
            parts.append(_attribute(binder, value) if inside else _content(binder, value))
        if text:
            parts.append(Literal(text, STRING))
    gather.check()
    return Call("xml", tuple(parts), STRING)


def _attribute(binder: Expressions, node: syntax.Scalar) -> Expression:
    return Call("xml_attribute", (_text(binder, node),), STRING)


def _content(binder: Expressions, node: syntax.Scalar) -> Expression:
    documents = _documents(binder)
    if documents is not None and isinstance(node, syntax.Name):
        bound = binder.bind(node)
        if bound == Ref(Source.INPUT, RESULT, STRING):
            return Call("xml_content", (bound,), STRING)
        if isinstance(bound, Ref) and any(bound.name == v for v in documents.variables):
            return Ref(Source.INPUT, subtree_of(bound.name), STRING)
    return Call("xml_text", (_text(binder, node),), STRING)


def _text(binder: Expressions, node: syntax.Scalar) -> Expression:
    """A value as text, as CAST converts it."""
    bound = binder.bind(node)
    if is_null(bound):
        return Literal(None, STRING)
    if isinstance(bound, Parameter):
        message = f"a parameter cannot stand in an element: {sql_name(bound.type)}"
        hint = "write the text into the query, or select a column"
        raise Problem("E110", message, node.at, hint)
    if not castable(bound.type, STRING):
        raise Problem("E110", f"a {sql_name(bound.type)} cannot stand in an element", node.at)
    return coerce(bound, STRING)


def _documents(binder: Expressions) -> Documents | None:
    """The query over documents that binds the names as variables, if it is directly below SELECT."""
    scope = binder.scope
    if not isinstance(scope, InputScope) or scope.place != "SELECT":
        return None
    node = scope.input.node
    while isinstance(node, Select):
        node = node.input
    return node if isinstance(node, Documents) else None


def with_subtrees(node: Node, items: Iterable[Expression]) -> Node:
    """The input of a SELECT, with the subtrees that its items copy."""
    asked = {ref.name for item in items for ref in refs(item) if is_subtree(ref.name)}
    return _asked(node, asked) if asked else node


def _asked(node: Node, asked: set[str]) -> Node:
    if isinstance(node, Select):
        return replace(node, input=_asked(node.input, asked))
    assert isinstance(node, Documents)
    return replace(node, copied=tuple(v for v in node.variables if subtree_of(v) in asked))
