"""The constants of one query, from its text and from the parameters of FOR EACH."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from braid.algebra.expressions import Literal
from braid.algebra.types import Kind, kind_of, sql_name
from braid.lang.bind.constant_traces import Declared, Trace, traced
from braid.lang.parse import syntax
from braid.lang.parse.problems import Gather, Problem, alternatives
from braid.lang.parse.type_names import bind_type


class Constants:
    """A source of constants while a query is bound, with a record of their conversions.

    `traces` has every reading of every constant of the text, including attempts that the binder
    gave up, because the result may depend on all of them.
    """

    def __init__(self, declared: Sequence[tuple[syntax.Ident, syntax.TypeName]] = ()) -> None:
        self.traces: list[Trace] = []
        self.names: dict[str, syntax.Ident] = {}
        self.types: list[pa.DataType] = []
        self._used: set[str] = set()
        gather = Gather()
        for ident, type_ in declared:
            with gather:
                self._declare(ident, type_)
        gather.check()

    def _declare(self, ident: syntax.Ident, type_: syntax.TypeName) -> None:
        if ident.name in self.names:
            raise Problem("E108", f"there is a parameter {ident.name!r} already", ident.at)
        bound = bind_type(type_)
        if kind_of(bound) in (Kind.OPAQUE, Kind.NULL):
            hint = "parameters are numbers, strings, booleans, times and durations"
            raise Problem("E163", f"a parameter cannot be {sql_name(bound)}", type_.at, hint)
        self.names[ident.name] = ident
        self.types.append(bound)

    def read(
        self, way: str, node: syntax.Number | syntax.Text | syntax.Period, literal: Literal
    ) -> Literal:
        """A constant of the text, with a trace from here on."""
        negative = isinstance(node, syntax.Number) and node.text.startswith("-")
        trace = Trace(node.at, negative=negative)
        self.traces.append(trace)
        return traced(trace, way, literal)

    def parameter(self, node: syntax.Parameter) -> Declared:
        if not self.names:
            hint = f"declare it: CREATE QUERY ... FOR EACH ({node.name} STRING) AS ..."
            message = f":{node.name} stands in a query that has no parameters"
            raise Problem("E160", message, node.at, hint)
        if node.name not in self.names:
            hint = alternatives("parameters", node.name, self.names)
            raise Problem("E161", f"there is no parameter {node.name!r}", node.at, hint)
        self._used.add(node.name)
        index = list(self.names).index(node.name)
        return Declared(index, self.types[index])

    def check_used(self) -> None:
        """Refuse a parameter without a use: its rows would not differ."""
        gather = Gather()
        for name, ident in self.names.items():
            with gather:
                if name not in self._used:
                    message = f"the parameter {name!r} is not used"
                    raise Problem("E162", message, ident.at, f"write :{name} in the query")
        gather.check()
