"""A window join of one query, as long as it is small.

    events -> window join -> results                  it holds at most `Context.spill_above`
    events -> what the spec says (`beyond`) -> results    from then on

Who takes over gets the plain join with all that it holds. What it does with that is its own matter:
this module knows of no other family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from braid.operators.core.base import Context, Held, Logic, OneForAll, State
from braid.operators.core.batch import Batch, Later
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.join.spec import PLAIN, GrowingJoinSpec, WindowJoinRecipe
from braid.operators.join.window_join import WindowJoinLogic

#: Makes the logic that takes over from a plain join.
TakeOver = Callable[[WindowJoinLogic], Logic]


def plain_join(spec: GrowingJoinSpec, context: Context) -> WindowJoinLogic:
    """The window join with its one member."""
    join = WindowJoinLogic(spec, context)
    one = Constants(pa.array(["one"]), [], context.values)
    join.admit(WindowJoinRecipe((), spec.sizes), one, [None for _ in spec.sizes])
    return join


def plain_state(join: WindowJoinLogic) -> State:
    """What a plain join saves."""
    return {f"{PLAIN}{name}": array for name, array in join.snapshot().items()}


def restore_plain(join: WindowJoinLogic, state: State) -> None:
    """Let a plain join go on from its part of a state."""
    own = {n.removeprefix(PLAIN): a for n, a in state.items() if n.startswith(PLAIN)}
    join.restore(own)


class GrowingJoinLogic(OneForAll):
    """The plain join, and from some size on who has taken over from it."""

    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(self, spec: GrowingJoinSpec, context: Context, take_over: TakeOver) -> None:
        self._spec, self._context, self._take_over = spec, context, take_over
        #: The plain join, until another has taken over.
        self._plain: WindowJoinLogic | None = plain_join(spec, context)
        #: Who joins now.
        self._now: Logic = self._plain

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch | Mapping[str, Batch | Later]:
        if self._plain is None:
            return self._now.on_batch(inputs, bound)
        found = Batch(self._plain.on_batch(inputs, bound).rows)
        if self._plain.state_bytes > self._context.spill_above and not self._plain.stopped:
            self._hand_over(self._plain)
        return found

    def _hand_over(self, plain: WindowJoinLogic) -> None:
        # Nobody else keeps the plain join: what it holds goes when it is not needed any more.
        self._now, self._plain = self._take_over(plain), None

    # ---- state ----

    def snapshot(self) -> State:
        return self._now.snapshot() if self._plain is None else plain_state(self._plain)

    def restore(self, state: State) -> None:
        """Go on from what was saved, by the plain join or by who had taken over."""
        if all(name.startswith(PLAIN) for name in state):
            self._plain = self._now = self._plain or plain_join(self._spec, self._context)
            restore_plain(self._plain, state)
            return
        if self._plain is not None:
            self._hand_over(self._plain)
        self._now.restore(state)

    def held(self) -> Held | None:
        return self._now.held()

    def replace_held(self, rows: Rows) -> None:
        self._now.replace_held(rows)

    def forget_codes(self) -> None:
        self._now.forget_codes()

    @property
    def instances(self) -> int:
        return self._now.instances

    @property
    def state_bytes(self) -> int:
        return self._now.state_bytes

    @property
    def index_bytes(self) -> int:
        return self._now.index_bytes

    @property
    def stopped(self) -> Mapping[int, int]:
        return self._now.stopped

    def describe(self) -> dict[str, Any]:
        own = {"has_grown": self._plain is None, "spill_above": self._context.spill_above}
        return self._now.describe() | own
