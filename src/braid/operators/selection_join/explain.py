"""Selection joins in words: the index of ranges, and the form in use."""

from __future__ import annotations

from collections.abc import Iterator

from braid.operators.core.family import Detail
from braid.operators.core.wording import counted
from braid.operators.join.explain import window_join_lines
from braid.operators.selection_join.spec import SelectionJoinSpec


def selection_join_lines(spec: SelectionJoinSpec, found: Detail, unit: str) -> Iterator[str]:
    yield from window_join_lines(spec, found, unit)
    index, dimensions = found["predicate_index"], found["dimensions"]
    yield f"index of ranges: {index['index']}, {counted(len(dimensions), 'dimension')}: {', '.join(dimensions)}"
    yield f"form: {found['form']}, because {found['because']}"
    if "microseconds_per_event" in found:
        tried = (f"{form} {cost:,}" for form, cost in found["microseconds_per_event"].items())
        yield f"microseconds an event: {', '.join(tried)}"
    if found["form"] == "own":
        kept = f"{found['lists_kept']:,} kept, {found['lists_not_kept']:,} not"
        yield f"lists of members with events: {kept}; {found['list_bytes']:,} bytes"
