"""The join graph: which keys are unique, and which inputs decide about the rows of others."""

from __future__ import annotations

from braid.operators.constraint_join.kernels.records import CONFIRMED
from braid.operators.constraint_join.state import Stores
from braid.operators.constraint_join.watch.violations import Breaks

#: Rows after which it is believed that none has the key of another.
_SEEN = 64


class Graph:
    """The join graph with what is known of keys: from declarations, or from what has come."""

    def __init__(self, held: Stores, breaks: Breaks) -> None:
        self._held, self._breaks = held, breaks

    def is_one(self, index: int, *, declared: bool) -> bool:
        """Whether a key that is looked up in an input is of one row at most."""
        if self._breaks.is_declared(index):
            return True
        if declared:
            return False
        record = self._held.indexes[index]
        return bool(record["seen"] >= _SEEN and not record["duplicates"])

    def refuses(self, index: int) -> bool:
        """Whether nobody need wait for the row of a key once WHERE has refused one: the key was
        declared, or all rows with it were observed for as long as others wait for them."""
        proved = bool(self._held.indexes["observed"]["complete"][index])
        return self.is_one(index, declared=not proved)

    def reached(self, number: int, *, declared: bool) -> set[int]:
        """The inputs of which a row of this one determines the row that it joins."""
        found, new = {number}, [number]
        while new:
            for edge in self._held.edges[new.pop()]:
                if edge.second not in found and self.is_one(edge.other, declared=declared):
                    found.add(edge.second)
                    new.append(edge.second)
        return found

    def deciding(self, number: int) -> tuple[list[int], bool]:
        """The edges of an input whose other inputs decide together whether it is still needed, and
        whether one of them does alone (theorem 5.2)."""
        edges = self._held.edges[number]
        covers = self._held.stores["one_result"]
        for place, edge in enumerate(edges):
            if covers[edge.second] == CONFIRMED:
                return [place], True
        parents = [
            place for place, edge in enumerate(edges) if self.is_one(edge.own, declared=False)
        ]
        together: set[int] = set()
        for place in parents:
            together |= self.reached(edges[place].second, declared=False)
        everything = len(together) == len(self._held.stores)
        return (parents, False) if everything else ([], False)

    def covering(self) -> list[int]:
        """The inputs whose rows are in one result at most, as far as keys tell."""
        everything = range(len(self._held.stores))
        return [n for n in everything if len(self.reached(n, declared=False)) == len(everything)]
