"""What a running m-op is: a Spec (`plan/specs.py`) says what it does, its Logic does it.

For each member query, the output of an m-op restricted to the query equals the reference
answer of the expression that the spec stands for. A batch holds whole epochs: all events of
each `end` in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from braid.kernels.runtime import address
from braid.mops.codegen import Parameter
from braid.mops.columns import Rows
from braid.mops.values import Values, Words
from braid.plan.layout import Layout

#: Arrays by name: what an m-op needs in order to go on after a restart.
State = dict[str, np.ndarray[Any, np.dtype[Any]]]


@dataclass
class Context:
    """What the m-ops of one shard share."""

    values: Values = field(default_factory=Values)
    instance_budget: int = 1_000_000
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    _constants: list[tuple[Words, int, str]] = field(default_factory=list)

    def parameters(self, lifted: Sequence[Parameter]) -> Words:
        """The parameter array of a generated function: strings become codes that stay."""
        words = np.zeros(max(1, len(lifted)), np.int64)
        for index, parameter in enumerate(lifted):
            if isinstance(parameter.value, str):
                words[index] = self.values.strings.pin(parameter.value)
                self._constants.append((words, index, parameter.value))
            else:
                words[index] = parameter.value
        return words

    def renew_constants(self) -> None:
        """Strings have new codes: tell the generated functions, which hold the arrays' addresses."""
        for words, index, text in self._constants:
            words[index] = self.values.strings.pin(text)

    def addresses(self, parameters: Words) -> Words:
        """Where generated code finds its parameters and the strings."""
        return np.array([address(parameters), address(self.values.strings.description)], np.int64)


@dataclass
class Held:
    """Rows that a logic keeps between batches, with the types of their columns."""

    rows: Rows
    layout: Layout
    types: tuple[pa.DataType, ...]


class Logic(Protocol):
    """A running m-op."""

    def on_batch(self, inputs: Sequence[Rows], bound: int) -> Rows:
        """The output for whole epochs of input; every later event ends at `bound` or after it."""
        ...

    def snapshot(self) -> State:
        """Everything that the next batch depends on."""
        ...

    def held(self) -> Held | None:
        """The rows kept between batches (live ones only), if there are any."""
        ...

    def replace_held(self, rows: Rows) -> None:
        """Take the rows of `held` back with their codes rewritten."""
        ...

    @property
    def instances(self) -> int: ...

    @property
    def state_bytes(self) -> int:
        """What it holds, allocated room that is not used yet included."""
        ...

    @property
    def stopped(self) -> int | None:
        """The event time at which it gave up because of its budget, if it did."""
        ...


class Stateless:
    """What a logic without state says about itself."""

    instances = 0
    state_bytes = 0
    stopped: int | None = None

    def snapshot(self) -> State:
        return {}

    def held(self) -> Held | None:
        return None

    def replace_held(self, rows: Rows) -> None:
        raise AssertionError("nothing is held")
