"""The m-ops that the plan makes by itself: channels of sharable streams, and published streams.

No operator of a query stands for them. The driver and the planner add them where streams come in
and where queries read what others publish.
"""

from __future__ import annotations

from dataclasses import dataclass

from braid.plan.routes import Recipe
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class EncodeSpec(Spec):
    """Sharable streams as one channel: each event once, with the streams that it belongs to."""

    input: Shape
    streams: tuple[str, ...]

    @property
    def output(self) -> Shape:
        return self.input

    def describe(self) -> str:
        return f"channel of {', '.join(self.streams)}"


@dataclass(frozen=True)
class PublishSpec(Spec):
    """The events of one published stream: those of all members that publish it, with just the
    attributes of the stream, whatever else the channels have that it reads."""

    shape: Shape
    stream: str

    @property
    def output(self) -> Shape:
        return self.shape

    def describe(self) -> str:
        return f"publish {self.stream}"


@dataclass(frozen=True)
class StreamRecipe(Recipe):
    """One of the streams that a channel encodes."""

    stream: str
