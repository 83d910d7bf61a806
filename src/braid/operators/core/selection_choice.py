"""How selection joins find members, as a user chooses it."""

from __future__ import annotations

from dataclasses import dataclass

from braid.errors import ConfigError

ADAPTIVE, OWN = "adaptive", "own"
PDFA_RTREE, PDFA_GRID = "pdfa_rtree", "pdfa_grid"
NAIVE_RTREE, NAIVE_GRID = "naive_rtree", "naive_grid"
CHOICES = (ADAPTIVE, OWN, PDFA_RTREE, PDFA_GRID, NAIVE_RTREE, NAIVE_GRID)


@dataclass(frozen=True)
class Choice:
    """One form, or the one that costs least; and what each join may keep of lists of members."""

    form: str = ADAPTIVE
    member_set_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        if self.form not in CHOICES:
            known = f"forms: {', '.join(CHOICES)}"
            raise ConfigError("E325", f"there is no form {self.form!r} of a selection join", known)
        if self.member_set_bytes < 0:
            raise ConfigError("E326", "member_set_bytes must not be negative")
