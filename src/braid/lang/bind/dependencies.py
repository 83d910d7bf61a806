"""The streams that a query reads and publishes, from its syntax alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from braid.lang.parse import syntax
from braid.lang.parse.problems import At
from braid.lang.parse.xml_syntax import Documents


@dataclass
class Dependencies:
    """The names of streams, each with its first place."""

    reads: dict[str, At] = field(default_factory=dict)
    publishes: dict[str, At] = field(default_factory=dict)


def dependencies(query: syntax.AnyQuery) -> Dependencies:
    found = Dependencies()
    _gather(query, found)
    return found


def _gather(stream: syntax.Stream, found: Dependencies) -> None:
    match stream:
        case syntax.Source(name=ident):
            found.reads.setdefault(ident.name, ident.at)
        case syntax.Query(stream=inner, publish=publish):
            _gather(inner, found)
            if publish is not None:
                found.publishes.setdefault(publish.name, publish.at)
        case (
            syntax.Relational(inputs=inputs, publish=publish)
            | syntax.Detect(inputs=inputs, publish=publish)
        ):
            for input_ in inputs:
                _gather(input_.stream, found)
            if publish is not None:
                found.publishes.setdefault(publish.name, publish.at)
        case syntax.Windowed(stream=inner):
            _gather(inner, found)
        case syntax.Filter(input=inner) | syntax.SameTime(input=inner):
            _gather(inner, found)
        case Documents(blocks=blocks):
            for block in blocks:
                found.reads.setdefault(block.stream.name, block.stream.at)
        case syntax.Next() | syntax.Fold() | syntax.Union():
            _gather(stream.first, found)
            _gather(stream.second, found)
