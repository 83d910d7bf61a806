"""What a running m-op is: a Spec (`plan/specs.py`) says what it does, its Logic does it.

For each member query, the output of an m-op restricted to the query equals the reference
answer of the expression that the spec stands for. A batch holds whole epochs: all events of
each `end` in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from braid.algebra.constraints import Watching
from braid.algebra.user_functions import Function
from braid.documents.reader import DocumentReader
from braid.jit.runtime import address
from braid.operators.core.batch import Batch, Later
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin, nobody
from braid.operators.core.selection_choice import Choice
from braid.operators.core.selection_settings import Selections
from braid.operators.core.user_functions import Failures
from braid.operators.core.values import Values, Words
from braid.plan.layout import Layout

#: Arrays by name: what an m-op needs in order to go on after a restart.
State = dict[str, np.ndarray[Any, np.dtype[Any]]]

#: How many bytes a join holds in memory before it puts rows aside: below, memory is no matter.
SPILL_ABOVE = 64 << 20


@dataclass
class Context:
    """What the m-ops of one shard share."""

    values: Values = field(default_factory=Values)
    instance_budget: int = 1_000_000
    functions: Mapping[str, Function] = field(default_factory=dict)
    #: Calls of these functions that gave no value.
    failures: Failures = field(default_factory=Failures)
    selections: Selections = field(default_factory=Selections)
    selection_join: Choice = field(default_factory=Choice)
    spill_above: int = SPILL_ABOVE
    watching: Watching = field(default_factory=Watching)
    share: tuple[int, int] = (0, 1)
    documents: DocumentReader = field(default_factory=DocumentReader)

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

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch | Mapping[str, Batch | Later]:
        """The output for whole epochs of input, by port if it has several; every later event
        ends at `bound` or after it. What comes later is made before the next call."""
        ...

    def admit(self, recipe: Any, constants: Constants, origins: Sequence[Origin | None]) -> Origin:
        """Take members on; the node of each in the output."""
        ...

    def snapshot(self) -> State:
        """Everything that the next batch depends on."""
        ...

    def restore(self, state: State) -> None:
        """Go on from what a logic of the same spec saved; the members are there already."""
        ...

    def held(self) -> Held | None:
        """The rows kept between batches (live ones only), if there are any."""
        ...

    def replace_held(self, rows: Rows) -> None:
        """Take the rows of `held` back with their codes rewritten."""
        ...

    def forget_codes(self) -> None:
        """Strings other than constants have new codes."""
        ...

    @property
    def takes_sets(self) -> bool:
        """Whether members of its inputs may be sets (see `batch.py`)."""
        ...

    @property
    def takes_bits(self) -> bool:
        """Whether sets of nodes may be bits (see `bit_sets.py`)."""
        ...

    @property
    def saves(self) -> bool:
        """Whether `snapshot` has anything to say."""
        ...

    @property
    def instances(self) -> int: ...

    @property
    def state_bytes(self) -> int:
        """What it holds of events, allocated room that is not used yet included."""
        ...

    @property
    def index_bytes(self) -> int:
        """What it holds of its members: tables and indexes."""
        ...

    @property
    def stopped(self) -> Mapping[int, int]:
        """Output nodes that gave up because of their budget, and the event time of it."""
        ...

    def describe(self) -> dict[str, Any]:
        """What its members have become, for `explain` and `stats`."""
        ...


class OneForAll:
    """A logic whose rows are everybody's: members come and go without it, and it goes with the last."""

    def admit(self, recipe: Any, constants: Constants, origins: Sequence[Origin | None]) -> Origin:
        return nobody(constants.count)

    def dismiss(self, numbers: Words) -> Words:
        return np.empty(0, np.int64)


class Stateless:
    """What a logic without state says about itself."""

    instances = 0
    state_bytes = 0
    takes_sets = False
    takes_bits = False
    saves = False
    stopped: Mapping[int, int] = {}

    @property
    def index_bytes(self) -> int:
        return 0

    def snapshot(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        """There is nothing to restore."""

    def held(self) -> Held | None:
        return None

    def replace_held(self, rows: Rows) -> None:
        raise AssertionError("nothing is held")

    def forget_codes(self) -> None:
        """It knows no codes."""

    def describe(self) -> dict[str, Any]:
        return {}
