"""The shared plan: m-ops in an order in which each reads only what comes before it.

A *channel* is what flows between m-ops: the rows of one m-op's output or of one source, and the
set of members that each row belongs to. An m-op is known by its *signature*, a hash of what its
operators have in common: whatever queries come and go, the same operators meet in the same m-op,
and a restart finds its state again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from braid.distribution.keys import split_channel
from braid.plan.routes import Stage
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class Mop:
    """One m-op in the plan. `made_by`: the rules that merged operators into it."""

    signature: str
    spec: Spec
    inputs: tuple[str, ...]
    made_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.signature[:8]


@dataclass
class Plan:
    """`sources`: what is read of each stream. Changes keep the invariants: acyclic, every input
    known, every channel of one shape."""

    sources: Mapping[str, Shape]
    mops: dict[str, Mop] = field(default_factory=dict)
    channels: dict[str, Shape] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for stream, shape in self.sources.items():
            self.channels.setdefault(source_channel(stream), shape)

    def add(self, stage: Stage) -> bool:
        """Take a stage in; whether its m-op is new."""
        self._check(stage)
        self.channels[stage.output] = stage.shape
        if stage.mop in self.mops:
            return False
        self.mops[stage.mop] = Mop(stage.mop, stage.spec, stage.inputs, stage.made_by)
        return True

    def _check(self, stage: Stage) -> None:
        for channel in stage.inputs:
            assert channel in self.channels, f"{stage.mop} reads {channel} before it is made"
        known = self.channels.get(stage.output)
        assert known is None or known == stage.shape, f"{stage.output} has two shapes"
        mop = self.mops.get(stage.mop)
        assert mop is None or mop.spec == stage.spec, f"{stage.mop} is two operators"
        assert mop is None or mop.inputs == stage.inputs, f"{stage.mop} reads two things"

    def remove(self, signature: str) -> None:
        """Forget an m-op that nobody uses, and its channels."""
        del self.mops[signature]
        for channel in [c for c in self.channels if channel_owner(c) == signature]:
            del self.channels[channel]

    @property
    def stateful(self) -> bool:
        return any(mop.spec.stateful for mop in self.mops.values())


def source_channel(stream: str) -> str:
    return f"stream:{stream}"


def streams_of(channel: str) -> tuple[str, ...]:
    """The streams that a channel has the events of, declared or published; none inside a query."""
    kind, _, names = channel.partition(":")
    if kind not in ("stream", "publish", "channel"):
        return ()
    return tuple(split_channel(name)[0] for name in names.split("|"))


def channel_owner(channel: str) -> str:
    """The m-op that writes a channel."""
    return channel.partition("/")[0]


def ordered(mops: Mapping[str, Mop]) -> tuple[str, ...]:
    """Signatures in an order in which each m-op comes after those that it reads."""
    done: dict[str, None] = {}

    def visit(signature: str, above: frozenset[str]) -> None:
        assert signature not in above, f"{signature} reads itself"
        if signature in done or signature not in mops:
            return
        for channel in mops[signature].inputs:
            visit(channel_owner(channel), above | {signature})
        done[signature] = None

    for signature in mops:
        visit(signature, frozenset())
    return tuple(done)


def moved_by_time(mops: Mapping[str, Mop], order: Iterable[str]) -> tuple[str, ...]:
    """The m-ops that put out something, or forget it, when nothing comes but time passes, and
    their readers."""
    moved: dict[str, None] = {}
    for signature in order:
        mop = mops[signature]
        below = any(channel_owner(channel) in moved for channel in mop.inputs)
        if below or mop.spec.acts_on_time:
            moved[signature] = None
    return tuple(moved)


def last_uses(mops: Mapping[str, Mop], order: Iterable[str]) -> dict[str, list[str]]:
    """After which m-op each channel is no longer read, so that its rows can go."""
    last: dict[str, str] = {}
    for signature in order:
        for channel in mops[signature].inputs:
            last[channel] = signature
    uses: dict[str, list[str]] = {}
    for channel, signature in last.items():
        uses.setdefault(signature, []).append(channel)
    return uses
