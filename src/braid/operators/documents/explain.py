"""A query over documents in words: its blocks, its join graph, its template, its conjunctive query."""

from __future__ import annotations

from braid.algebra.documents import DOCUMENT, ENDLESS, Axis, Block, Documents, PatternNode
from braid.algebra.expressions import Expression, Literal
from braid.algebra.nodes import Node, walk_nodes
from braid.algebra.text import show
from braid.operators.core.family import Detail
from braid.operators.core.wording import counted
from braid.operators.documents.join_graphs import JoinGraph, conjunctive_query, join_graph, names_of
from braid.operators.documents.spec import DocumentsSpec
from braid.operators.documents.stages import Carried, carried, view_of

_AXES = {Axis.CHILD: "/", Axis.DESCENDANT: "//", Axis.ATTRIBUTE: "/@"}
_AXES[Axis.DESCENDANT_ATTRIBUTE] = "//@"
_JSON_AXES = {Axis.CHILD: ".", Axis.DESCENDANT: ".."}


def document_lines(node: Node) -> list[str]:
    """Every query over documents in an expression."""
    return [
        line for part in walk_nodes(node) if isinstance(part, Documents) for line in _lines(part)
    ]


def _lines(query: Documents) -> list[str]:
    lines = ["", "query over documents"]
    lines += [f"  block {show_block(query.blocks[number])}" for number in query.written]
    for number in range(1, len(query.blocks)):
        lines += _join_lines(query.prefix(number + 1), query)
    return lines


def _join_lines(query: Documents, whole: Documents) -> list[str]:
    """The last join of a query, with what the joins before it hand on."""
    last = len(query.blocks) - 1
    bound = carried(whole, last, frozenset()) if last > 1 else None
    view = view_of(query, bound, None)
    names = _names(whole, last, bound)
    pairs = [f"{names[0][j.first]} {j.operator} {names[1][j.second]}" for j in view.joins]
    what = "" if bound is None else f" of block {whole.place(last) + 1}"
    lines = [
        f"  {view.kind}{what} within {_window(view.window)}: {' AND '.join(pairs) or 'all pairs'}"
    ]
    graph = join_graph(view)
    lines.append(f"  join graph: {_tree(graph, 0, names[0])}; {_tree(graph, 1, names[1])}")
    if not view.joins:
        return lines
    reduced = graph.reduced()
    kept = tuple(
        tuple(n for k, n in enumerate(names[side]) if k in _kept(graph, side)) for side in (0, 1)
    )
    lines.append(f"  reduced: {_tree(reduced, 0, kept[0])}; {_tree(reduced, 1, kept[1])}")
    lines.append("  conjunctive query of its template:")
    return lines + [f"    {line}" for line in conjunctive_query(reduced).splitlines()]


def _names(
    query: Documents, last: int, bound: tuple[Carried, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the nodes of both sides are called: values of rows as they are in their blocks."""
    names = names_of(query)
    if bound is None:
        return names[0], names[1]
    return ("row", *(names[value.block][value.node] for value in bound)), names[last]


def _kept(graph: JoinGraph, side: int) -> set[int]:
    joined = {join[side] for join in graph.joins}
    parting = {
        node
        for a in joined
        for b in joined
        if a != b
        for node in [_lowest(graph.path(side, a), graph.path(side, b))]
        if node is not None
    }
    return joined | parting


def _lowest(first: tuple[int, ...], second: tuple[int, ...]) -> int | None:
    """The last node that two ways have in common."""
    common = [a for a, b in zip(first, second, strict=False) if a == b]
    return common[-1] if common else None


def _tree(graph: JoinGraph, side: int, names: tuple[str, ...]) -> str:
    def below(node: int) -> str:
        children = [n for n, above in enumerate(graph.parents[side]) if above == node]
        inner = f"({', '.join(map(below, children))})" if children else ""
        return names[node] + inner

    roots = [n for n, above in enumerate(graph.parents[side]) if above < 0]
    return ", ".join(map(below, roots))


def show_block(block: Block) -> str:
    """A block in the language's own syntax: JSONPath if it begins at the document `$`."""
    spine = block.path(block.root)
    return "".join(_step(block, number, set(spine)) for number in spine)


def _step(block: Block, number: int, spine: set[int]) -> str:
    node = block.nodes[number]
    json = _is_json(block)
    text = _member(node) if json else _element(node)
    if node.variable is not None:
        text += f"->{node.variable}"
    for test in node.tests:
        text += f"[. {test.operator} {show(test.constant)}]"
    for child, other in enumerate(block.nodes):
        if other.parent == number and child not in spine:
            text += f"[{'' if json else '.'}{_step(block, child, spine)}]"
    return text


def _is_json(block: Block) -> bool:
    first = block.nodes[0].name
    return isinstance(first, Literal) and first.value == DOCUMENT


def _element(node: PatternNode) -> str:
    return _AXES[node.axis] + ("*" if node.name is None else _constant(node.name))


def _member(node: PatternNode) -> str:
    if node.parent < 0:
        return DOCUMENT
    axis = _JSON_AXES[node.axis]
    name = "*" if node.name is None else _constant(node.name)
    if not isinstance(node.name, Literal) or name.isidentifier():
        return axis + name
    quoted = "['" + name.replace("'", "''") + "']"
    return quoted if node.axis is Axis.CHILD else axis + quoted


def _constant(name: Expression) -> str:
    return str(name.value) if isinstance(name, Literal) else show(name)


def _window(window: Expression | None) -> str:
    if isinstance(window, Literal) and window.value == ENDLESS:
        return "any time"
    return "?" if window is None else show(window)


def mop_lines(spec: DocumentsSpec, found: Detail, unit: str) -> list[str]:
    """What an m-op of such queries has become."""
    paths = (counted(found["states"], "state"), counted(found["predicates"], "predicate"))
    joins = "once for all templates" if spec.views else "by each template for itself"
    queries = counted(found["queries"], "different query")
    templates = counted(found["templates"], "join template")
    held = counted(found["documents"], "document")
    return [
        f"paths: one automaton of {' and '.join(paths)}, {counted(found['edges'], 'edge')}",
        f"{queries} of {templates}, values joined {joins}",
        f"holds {held} with {counted(found['witnesses'], 'bound value')}",
        f"view cache: {found['cache_hits']:,} values found, {found['cache_misses']:,} not",
        "whole: all documents of its streams meet on one shard",
    ]
