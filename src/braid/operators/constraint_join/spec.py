"""A join that uses constraints, as data; see `docs/constraints.md`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from braid.algebra.constraints import Constraint, ConstraintMode
from braid.operators.join.spec import PLAIN, GrowingJoinSpec, JoinSpec
from braid.plan.specs import Spec

#: The column of an input that says whether WHERE keeps a row, and the prefix of its own order columns.
KEEPS = "__keeps"
ORDER = "__order_"
#: The name under which the counts of every input are saved.
STORES = "k_stores"


@dataclass(frozen=True)
class WindowInside:
    """A window that a join has inside: `range` (also for [Now]), `rows` or `unbounded`; or, for an
    input whose rows come and go, `changes`.

    `order`: for rows, the columns that decide which events of one instant are the last.
    """

    kind: str
    size: int = -1
    order: tuple[str, ...] = ()

    def describe(self) -> str:
        return self.kind if self.size < 0 else f"{self.kind} {self.size}"


#: The input is a relation: its rows come and go.
CHANGES = WindowInside("changes")


@dataclass(frozen=True)
class ConstraintJoinSpec(JoinSpec):
    """The combinations of events in the windows that come, under an Istream.

    The inputs are streams. An event that WHERE rejects arrives as well, and `keeps` says so: it counts
    for windows by rows, and rows that wait for it can leave. There is one member, or several that are the
    same: constants are part of the residual. `names`: the stream of each input and the names of its
    columns there, as far as they are attributes of it; `declared`: the constraints of these streams. The
    output has only what comes, less what goes at the same instant.

    If the inputs are relations (`changes`, all of them), their rows come and go with weights as in a
    `JoinSpec`, and so does the output: it has all that goes, unless it is read for what comes only
    (`only_coming`).

    `netted`: if all windows are by time and a `WindowJoinSpec` could be there instead, what that would
    have; while few rows are held, that join runs.
    """

    windows: tuple[WindowInside, ...] = ()
    keeps: tuple[bool, ...] = ()
    mode: ConstraintMode = ConstraintMode.EXACT
    names: tuple[tuple[str | None, tuple[tuple[str, str], ...]], ...] = ()
    declared: tuple[Constraint, ...] = ()
    birth: int | None = None
    only_coming: bool = False
    netted: tuple[tuple[str, ...], ...] = ()

    @property
    def acts_on_time(self) -> bool:
        return True

    @property
    def for_one_query(self) -> bool:
        return True

    @property
    def plain(self) -> GrowingJoinSpec:
        """The window join that is run instead while little is held."""
        return GrowingJoinSpec(
            self.inputs,
            self.equalities,
            self.residual,
            self.emit,
            self.membered,
            self.netted or tuple(() for _ in self.inputs),
            self.birth,
            sizes=tuple(window.size for window in self.windows),
            beyond=self,
        )

    @property
    def may_wait(self) -> bool:
        """Whether it is the plain join until that has grown: nothing is declared, nothing may be
        lost, and what WHERE refuses does not come to it."""
        plain = bool(self.netted) and not any(self.keeps)
        return plain and not self.declared and self.mode is ConstraintMode.EXACT

    def describe(self) -> str:
        return f"constraint {super().describe()}"


def is_own_join(state: Mapping[str, Any]) -> bool:
    """Whether a state is that of a join that uses constraints, or will once it has grown."""
    return STORES in state or any(name.startswith(PLAIN) for name in state)


def constraint_join_of(spec: Spec) -> ConstraintJoinSpec | None:
    """The join with constraints that a spec is, or that it becomes when it grows."""
    found = spec.beyond if isinstance(spec, GrowingJoinSpec) else spec
    return found if isinstance(found, ConstraintJoinSpec) else None
