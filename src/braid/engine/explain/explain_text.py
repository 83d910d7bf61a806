"""How an m-op does its work, in words: its index, its states, how long its instances live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from braid.algebra.schema import TICKS
from braid.algebra.text import show_duration
from braid.engine.explain.overview import MopView, Who
from braid.operators.constraint_join.declared_spec import DeclaredWatchSpec
from braid.operators.constraint_join.explain import constraint_lines, watch_line
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.detect.spec import DetectionSpec, detection_lines
from braid.operators.documents.spec import DocumentsSpec
from braid.operators.group.spec import GroupSpec
from braid.operators.join.spec import GrowingJoinSpec, JoinSpec, WindowJoinSpec
from braid.operators.pattern.spec import Key, StepSpec
from braid.operators.project.spec import ProjectSpec
from braid.operators.select.spec import SelectionSpec
from braid.operators.selection_join.spec import SelectionJoinSpec
from braid.operators.to_stream.spec import ToStreamSpec
from braid.operators.window.spec import BufferSpec, WindowSpec
from braid.optimizer.rules import RULES

_SAYS = {rule.name: rule.says for rule in RULES}


def counted(number: int, word: str) -> str:
    """`1 query`, `2 queries`."""
    if number == 1:
        return f"1 {word}"
    if word.endswith("y"):
        return f"{number:,} {word[:-1]}ies"
    return f"{number:,} {word}{'es' if word.endswith('s') else 's'}"


def named(who: Who, word: str) -> str:
    """`3 members a, b, c`; of many only some are named."""
    more = who.count - len(who.some)
    shown = ", ".join(who.some) + (f" and {more:,} more" if more else "")
    return f"{counted(who.count, word)} {shown}".rstrip()


def details(view: MopView) -> list[str]:
    """What could be told of an m-op besides what it does and for whom."""
    spec, found = view.mop.spec, view.detail
    match spec:
        case SelectionSpec():
            return [index_line(found)]
        case StepSpec():
            rest = (_states_line(found), _forward_line(found))
            return [
                *_instance_lines(spec, found),
                *rest,
                bound_line(found["bounds"], view.unit),
            ]
        case WindowSpec():
            return [_window_line(spec, found, view.unit)]
        case ConstraintJoinSpec():
            return list(constraint_lines(found))
        case GrowingJoinSpec() if found["has_grown"]:
            return [
                "uses constraints since it has grown beyond what is kept without",
                *constraint_lines(found),
            ]
        case DeclaredWatchSpec():
            return [watch_line(found)]
        case SelectionJoinSpec():
            lines = [*_join_lines(spec, found), *_inside_lines(spec, found, view.unit)]
            return [*lines, *_selection_lines(found)]
        case WindowJoinSpec():
            lines = [*_join_lines(spec, found), *_inside_lines(spec, found, view.unit)]
            return [*lines, *_growing_lines(spec, found)]
        case JoinSpec():
            return _join_lines(spec, found)
        case GroupSpec():
            what = "distinct row" if spec.distinct else "group"
            return [f"{counted(found['groups'], what)} of {counted(found['nodes'], 'relation')}"]
        case BufferSpec():
            return _buffer_lines(spec, found, view.unit)
        case ToStreamSpec() if spec.kind == "Rstream":
            rows = counted(found["rows"], "distinct row")
            return [f"keeps {rows} of {counted(found['relations'], 'relation')}"]
        case DetectionSpec():
            return detection_lines(found)
        case DocumentsSpec():
            return _document_lines(spec, found)
        case ProjectSpec() if spec.constants:
            return [f"computed for each member: {counted(spec.constants, 'constant')}"]
        case ProjectSpec() if spec.membered:
            return ["computed once an event, whoever its members are"]
    return []


def _document_lines(spec: DocumentsSpec, found: dict[str, Any]) -> list[str]:
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


def rules_of(view: MopView) -> tuple[str, ...]:
    """The rules that made it what it is; a default rule is named only if no better one applied."""
    made_by = view.mop.made_by
    better = [name for name in made_by if not name.startswith("d_")]
    return tuple(better or made_by)


def origin_lines(view: MopView) -> list[str]:
    """Which rules made it and from what."""
    rules = rules_of(view)
    if view.kind == "publication":
        return ["made because the stream is read as it is, not its operators"]
    if view.kind == "watch":
        return ["made because queries join what the constraint is about"]
    what = counted(view.operators, view.kind)
    if not rules:
        return [f"made by no rule: {what} alone"]
    if len(rules) == 1:
        return [f"merged by {rules[0]} from {what}: {_SAYS[rules[0]]}"]
    lines = [f"merged by {', '.join(rules)} from {what}"]
    return lines + [f"  {name}: {_SAYS[name]}" for name in rules]


# ---- indexes of predicates ----


def index_line(found: dict[str, Any]) -> str:
    """How the predicates are found that an event satisfies."""
    clauses = counted(int(found.get("clauses", 0)), "clause")
    shown = f"index: {'; '.join((index_form(found), *_access_parts(found), clauses))}"
    compiled = int(found.get("compiled", 0))
    refused = f"; ASC is not used: {found['asc_not_used']}" if "asc_not_used" in found else ""
    besides = f"; {counted(compiled, 'compiled test')} besides" if compiled else ""
    return f"{shown}{besides}{refused}"


def index_form(found: dict[str, Any]) -> str:
    form = str(found.get("form", "?"))
    if form == "in turn":
        return "none, one predicate after the other"
    if form != "asc":
        return form
    order = " > ".join(_column(found, c) for c in found.get("sequence", ())) or "nothing"
    ratio = float(found.get("dropping_ratio", 0.0))
    changes = counted(int(found.get("rearrangements", 0)), "rearrangement")
    added = f"; {counted(found['added'], 'clause')} beside them" if "added" in found else ""
    return f"ASC in the sequence {order}; {100 * ratio:.0f}% of events dropped; {changes}{added}"


def _access_parts(found: dict[str, Any]) -> list[str]:
    classes = [_columns(found, c) for c in found.get("classes", ()) if c]
    parts = []
    if classes:
        parts.append(f"{counted(len(classes), 'hash class')}: {_some(classes)}")
    for key, word in (("trees", "ranges of"), ("patterns", "texts in")):
        columns = found.get(key, ())
        if columns:
            parts.append(f"{word} {_columns(found, columns)}")
    return parts


def _columns(found: dict[str, Any], columns: Iterable[Any]) -> str:
    return " + ".join(_column(found, c) for c in columns)


def _column(found: dict[str, Any], column: Any) -> str:
    names = found.get("columns", ())
    return str(names[column]) if isinstance(column, int) and column < len(names) else str(column)


def _some(names: Sequence[str], most: int = 4) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


# ---- patterns ----


def keys_shown(keys: Sequence[Key]) -> str:
    return " AND ".join(
        f"$2.{k.event} = {'$1.' if k.instance.startswith('f:') else '$.'}{k.instance[2:]}"
        for k in keys
    )


def _instance_lines(spec: StepSpec, found: dict[str, Any]) -> list[str]:
    """The indexes by which an event finds instances: of bound values (AI), of constants (AN)."""
    static = [c for c in found["static"] if c["columns"]]
    lines = []
    if spec.keys:
        lines.append(f"AI index: hash on {keys_shown(spec.keys)}")
    if static:
        classes = [f"{' + '.join(map(_own, c['columns']))} ({c['groups']:,})" for c in static]
        lines.append(f"AN index: by the constants asked of {_some(classes)}")
    if not spec.keys:
        groups = sum(c["groups"] for c in found["static"] if not c["columns"])
        if not static:
            lines.append("no index: every instance is looked at")
        elif groups:
            lines.append(f"no index for {counted(groups, 'group')}: every instance is looked at")
    return lines


def _own(column: str) -> str:
    """The number of a member's node, which a row carries where the input has members."""
    return "member" if column == "#" else f"$2.{column}"


def _states_line(found: dict[str, Any]) -> str:
    parts = [counted(found["groups"], "group"), counted(found["states"], "state")]
    return ", ".join((*parts, counted(found["outputs"], "output")))


def _forward_line(found: dict[str, Any]) -> str:
    """The forward edges (FR): tested one after the other where a state has few, else indexed."""
    edges, forward = found["edges"], found["forward"]
    if forward is not None:
        inline = f"{counted(edges, 'edge')} inline, " if edges else ""
        indexed = f"{counted(int(forward['predicates']), 'edge')} indexed"
        return f"FR index: {inline}{indexed} ({index_form(forward)})"
    if edges:
        return f"forward: {counted(edges, 'edge')} inline"
    return "forward: every composite goes on"


def bound_line(bounds: dict[str, Any], unit: str) -> str:
    """How long instances live."""
    low, high, unbounded = bounds["lowest"], bounds["highest"], bounds["unbounded"]
    if low is None:
        return "unbounded" if unbounded else "waits for nothing"
    shown = _length(high, unit) if low == high else f"{_length(low, unit)} to {_length(high, unit)}"
    rest = f"; {counted(unbounded, 'state')} unbounded" if unbounded else ""
    return f"expires after {shown}{rest}"


def _length(amount: int, unit: str) -> str:
    return counted(amount, "tick") if unit == TICKS else show_duration(amount)


# ---- relations ----


def _window_line(spec: WindowSpec | BufferSpec, found: dict[str, Any], unit: str) -> str:
    """How many windows of how many sizes, and what they keep."""
    windows, longest = counted(found["windows"], "window"), found.get("longest")
    if longest is not None:
        shown = counted(longest, "row") if spec.kind == "rows" else _length(longest, unit)
        sizes = found["sizes"]
        windows += f" of {shown}" if sizes == 1 else f" of {sizes:,} sizes, up to {shown}"
    if spec.kind == "unbounded":
        return f"{windows}; nothing is kept, and nothing leaves"
    kept = f"{windows}; keeps {counted(found['rows'], 'row')}, each once"
    if spec.keys:
        kept += f", in {counted(found['partitions'], 'partition')}"
    if spec.birth is not None:
        kept += f"; sees what starts at {spec.birth} or later"
    return kept


def _buffer_lines(spec: BufferSpec, found: dict[str, Any], unit: str) -> list[str]:
    lines = [f"{_window_line(spec, found, unit)}, with {counted(found['columns'], 'column')}"]
    if found["readers"]:
        lines.append(f"rows go on with {counted(found['readers'], 'set')} of columns")
    if found["groupings"]:
        groups = f"{counted(found['groups'], 'group')} of {counted(found['nodes'], 'relation')}"
        lines.append(f"{counted(found['groupings'], 'grouping')}: {groups}")
    return lines


def _inside_lines(spec: WindowJoinSpec, found: dict[str, Any], unit: str) -> Iterator[str]:
    """What windows are inside a join, and what they keep of each input."""
    for sizes, longest, held in zip(found["sizes"], found["longest"], found["inputs"], strict=True):
        windows = "no windows inside"
        if longest is not None:
            shown = _length(longest, unit)
            many = f"{sizes:,} sizes, up to {shown}"
            windows = f"windows inside, of {shown if sizes == 1 else many}"
        yield f"{windows}; keeps {counted(held['rows'], 'event')}, each once"
    if spec.birth is not None:
        yield f"sees what starts at {spec.birth} or later"
    if spec.complete:
        yield "tells what goes as well: groups are made of it"


def _growing_lines(spec: WindowJoinSpec, found: dict[str, Any]) -> Iterator[str]:
    """From when on a plain join is another one."""
    if isinstance(spec, GrowingJoinSpec):
        yield f"too little is held to use constraints: less than {found['aside_above']:,} bytes"


def _selection_lines(found: dict[str, Any]) -> Iterator[str]:
    """The predicate index of a selection join, its dimensions, and the form in use."""
    index, dimensions = found["predicate_index"], found["dimensions"]
    yield f"index of ranges: {index['index']}, {counted(len(dimensions), 'dimension')}: {', '.join(dimensions)}"
    yield f"form: {found['form']}, because {found['because']}"
    if "microseconds_per_event" in found:
        tried = (f"{form} {cost:,}" for form, cost in found["microseconds_per_event"].items())
        yield f"microseconds an event: {', '.join(tried)}"
    if found["form"] == "own":
        kept = f"{found['lists_kept']:,} kept, {found['lists_not_kept']:,} not"
        yield f"lists of members with events: {kept}; {found['list_bytes']:,} bytes"


def _join_lines(spec: JoinSpec, found: dict[str, Any]) -> list[str]:
    how = "every combination is looked at"
    if spec.equalities or found["bands"]:
        how = "hash on the equalities" if spec.equalities else "hash on a band"
    lines = [f"{counted(found['nodes'], 'output')}; {how}"]
    orders = [
        f"{first} > {' > '.join(map(str, order))}" for first, order in enumerate(found["orders"])
    ]
    if len(spec.inputs) > 2:
        lines.append(f"probe orders: {', '.join(orders)}")
    return lines
