"""A plan as a picture: streams, m-ops and exits as boxes from left to right, channels as lines.

A person must be able to read it whatever the number of queries, so there are counts and no
lists, and at most `MOST_BOXES` boxes: of many m-ops of one kind those with most members are
drawn, the others are one box that says how many they are. A line is the thicker the more members
it is for, and dashed where events carry the members that they belong to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from braid.engine.explain.explain_text import rules_of
from braid.engine.explain.overview import ExitView, MopView, Overview
from braid.operators.core.wording import counted
from braid.operators.registry import REGISTRY
from braid.plan.plan import channel_owner, source_channel

MOST_BOXES = 40
#: Pixels: a box, the room between layers and between boxes, a line of text.
WIDTH, GAP_X, GAP_Y, LINE, MARGIN = 190, 110, 18, 16, 24
#: Characters of a line in a box.
LETTERS = 27

_COLOURS = {
    "stream": ("#e3f0fb", "#2b6ca3"),
    "exit": ("#e6f4e6", "#33803a"),
    "selection": ("#fdf3d8", "#a97a10"),
    "sequence": ("#f3e6f7", "#7d3c98"),
    "iteration": ("#f3e6f7", "#7d3c98"),
}
_OTHER = ("#f2f2f2", "#666666")
#: What XML cannot have, whatever an id or a name is made of.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass
class Box:
    """`weight`: how many queries it is for, which decides what is drawn if not everything is."""

    key: str
    kind: str
    lines: list[str]
    weight: int
    title: str
    layer: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def height(self) -> int:
        return LINE * len(self.lines) + 14


@dataclass
class Line:
    members: int = 0
    channels: int = 0
    membered: bool = False


@dataclass
class _Graph:
    boxes: dict[str, Box] = field(default_factory=dict)
    lines: dict[tuple[str, str], Line] = field(default_factory=dict)

    def connect(self, source: str, target: str, members: int, membered: bool) -> None:
        line = self.lines.setdefault((source, target), Line())
        line.members += members
        line.channels += 1
        line.membered |= membered


def draw(found: Overview) -> str:
    """The plan as a standalone SVG document."""
    graph = _folded(_graph(found))
    _arrange(graph)
    return _written(graph, found)


# ---- boxes and lines ----


def _graph(found: Overview) -> _Graph:
    graph = _Graph()
    for name, columns in found.sources.items():
        key = source_channel(name)
        lines = [name, "stream", counted(len(columns), "column")]
        shown = ", ".join(column for column, _ in columns)
        graph.boxes[key] = Box(key, "stream", lines, found.queries, f"{name}: {shown}")
    for signature, view in found.mops.items():
        box = graph.boxes[signature] = _mop_box(signature, view)
        for channel in view.mop.inputs:
            owner = channel_owner(channel)
            if owner not in graph.boxes:
                continue  # not part of what is shown
            box.layer = max(box.layer, graph.boxes[owner].layer + 1)
            flowing = found.channels[channel]
            members = flowing.queries or view.members.count
            graph.connect(owner, signature, members, flowing.membered)
    last = 1 + max((box.layer for box in graph.boxes.values()), default=0)
    for number, exit_ in enumerate(found.exits):
        box = _exit_box(number, exit_)
        box.layer = last
        graph.boxes[box.key] = box
        leaving = found.channels.get(exit_.point.channel)
        membered = leaving is not None and leaving.membered
        graph.connect(channel_owner(exit_.point.channel), box.key, box.weight, membered)
    return graph


def _mop_box(signature: str, view: MopView) -> Box:
    lines = [f"{view.kind} {view.name}", counted(view.members.count, "member")]
    spec = view.mop.spec
    kind = REGISTRY.kind_of(spec)
    if not kind.has_members:
        lines = [view.name, view.kind]
    lines += kind.box(spec, view.detail, view.unit)
    rules = ", ".join(rules_of(view))
    title = f"{spec.describe()} -- {counted(view.operators, 'operator')}, rules: {rules or 'none'}"
    return Box(signature, view.kind, lines, view.members.count, title)


def _exit_box(number: int, view: ExitView) -> Box:
    name = view.point.stream
    lines = [name or "not published", counted(view.queries.count, "query")]
    return Box(f"exit {number}", "exit", lines, view.queries.count, ", ".join(view.point.names))


# ---- few enough to read ----


def _folded(graph: _Graph) -> _Graph:
    """At most `MOST_BOXES` boxes: the smaller ones of a kind and layer become one."""
    groups = _groups(graph.boxes.values())
    kept = {key: len(boxes) for key, boxes in groups.items()}

    def drawn(key: tuple[str, int]) -> int:
        return kept[key] + (kept[key] < len(groups[key]))

    while sum(map(drawn, kept)) > MOST_BOXES:
        largest = max(kept, key=lambda key: kept[key])
        if kept[largest] == 0:
            break
        # A single box that stands for one other would save nothing.
        kept[largest] -= 2 if kept[largest] == len(groups[largest]) else 1
        kept[largest] = max(0, kept[largest])
    made = _Graph()
    place: dict[str, str] = {}
    for key, boxes in groups.items():
        boxes.sort(key=lambda box: -box.weight)
        for box in boxes[: kept[key]]:
            made.boxes[box.key], place[box.key] = box, box.key
        rest = boxes[kept[key] :]
        if rest:
            one = _rest(key, rest, alone=not kept[key])
            made.boxes[one.key] = one
            place.update((box.key, one.key) for box in rest)
    for (source, target), line in graph.lines.items():
        if source in place and place[source] != place[target]:
            known = made.lines.setdefault((place[source], place[target]), Line())
            known.members += line.members
            known.channels += line.channels
            known.membered |= line.membered
    return made


def _groups(boxes: Iterable[Box]) -> dict[tuple[str, int], list[Box]]:
    """By kind and layer; of a very deep plan by kind and a few bands of layers."""
    found = list(boxes)
    band = 1
    while True:
        groups: dict[tuple[str, int], list[Box]] = {}
        for box in found:
            groups.setdefault((box.kind, box.layer // band), []).append(box)
        if len(groups) <= MOST_BOXES // 2 or band > 1 << 20:
            return groups
        band *= 2


def _rest(key: tuple[str, int], boxes: list[Box], *, alone: bool) -> Box:
    kind, _ = key
    what = counted(len(boxes), kind)
    first = what if alone else f"{len(boxes):,} more {what.partition(' ')[2]}"
    total = sum(box.weight for box in boxes)
    word = "column" if kind == "stream" else "query" if kind == "exit" else "member"
    lines = [first] if kind == "stream" else [first, counted(total, word)]
    layer = min(box.layer for box in boxes)
    return Box(f"rest {key}", kind, lines, total, f"{what} that are not drawn one by one", layer)


# ---- where they are ----


def _arrange(graph: _Graph) -> None:
    """Layers from left to right; within one, boxes near what they read."""
    _close_up(graph)
    layers: dict[int, list[Box]] = {}
    for box in graph.boxes.values():
        layers.setdefault(box.layer, []).append(box)
    inputs: dict[str, list[str]] = {}
    for source, target in graph.lines:
        inputs.setdefault(target, []).append(source)
    tallest = max((_height(boxes) for boxes in layers.values()), default=0)
    for layer in sorted(layers):
        boxes = layers[layer]
        boxes.sort(key=lambda box: _centre_of([graph.boxes[s] for s in inputs.get(box.key, [])]))
        y = MARGIN + 30 + (tallest - _height(boxes)) / 2
        for box in boxes:
            box.x, box.y = MARGIN + layer * (WIDTH + GAP_X), y
            y += box.height + GAP_Y


def _close_up(graph: _Graph) -> None:
    """No empty layers."""
    used = {layer: k for k, layer in enumerate(sorted({b.layer for b in graph.boxes.values()}))}
    for box in graph.boxes.values():
        box.layer = used[box.layer]


def _height(boxes: list[Box]) -> float:
    return sum(box.height + GAP_Y for box in boxes) - GAP_Y


def _centre_of(boxes: list[Box]) -> float:
    return sum(box.y + box.height / 2 for box in boxes) / len(boxes) if boxes else 0.0


# ---- SVG ----


def _written(graph: _Graph, found: Overview) -> str:
    boxes = graph.boxes.values()
    width = max((box.x for box in boxes), default=0) + WIDTH + MARGIN
    height = max((box.y + box.height for box in boxes), default=0) + MARGIN + 26
    width = max(width, 640)
    head = f"{counted(found.queries, 'query')}, {counted(len(found.mops), 'm-op')}"
    key = "thicker: for more members; dashed: events carry their members"
    root = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">'
    )
    parts = [
        root,
        f"<title>{_safe(head)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="{MARGIN + 4}" font-size="14" font-weight="bold">{_safe(head)}</text>',
    ]
    parts += [
        _line(graph.boxes[source], graph.boxes[target], line)
        for (source, target), line in graph.lines.items()
    ]
    parts += [_box(box) for box in boxes]
    parts.append(
        f'<text x="{MARGIN}" y="{height - 10:.0f}" fill="#666666" font-size="11">{key}</text>'
    )
    return "\n".join((*parts, "</svg>")) + "\n"


def _line(source: Box, target: Box, line: Line) -> str:
    x1, y1 = source.x + WIDTH, source.y + source.height / 2
    x2, y2 = target.x, target.y + target.height / 2
    bend = max(40.0, (x2 - x1) / 2)
    thick = 1 + 0.9 * math.log10(max(1, line.members))
    dashes = f' stroke-dasharray="{3 * thick:.1f} {2 * thick:.1f}"' if line.membered else ""
    said = f"{counted(line.channels, 'channel')}, {counted(line.members, 'member')}"
    return (
        f'<path class="channel" d="M{x1:.1f},{y1:.1f} C{x1 + bend:.1f},{y1:.1f} '
        f'{x2 - bend:.1f},{y2:.1f} {x2:.1f},{y2:.1f}" fill="none" stroke="#888888" '
        f'stroke-width="{thick:.1f}"{dashes}><title>{said}</title></path>'
    )


def _box(box: Box) -> str:
    fill, edge = _COLOURS.get(box.kind, _OTHER)
    frame = (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{WIDTH}" height="{box.height}" rx="6" '
        f'fill="{fill}" stroke="{edge}" stroke-width="1.2"/>'
    )
    parts = [f'<g class="box {box.kind}"><title>{_safe(box.title)}</title>', frame]
    for number, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if number == 0 else ""
        y = box.y + 19 + LINE * number
        parts.append(f'<text x="{box.x + 9:.1f}" y="{y:.1f}"{weight}>{_safe(_cut(line))}</text>')
    return "".join((*parts, "</g>"))


def _cut(text: str) -> str:
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"


def _safe(text: str) -> str:
    return escape(_UNWRITABLE.sub("\ufffd", text))
