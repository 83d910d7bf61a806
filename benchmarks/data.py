"""Where real data lies that is too large, or not ours, to be part of the project.

Cases read it where it is and draw data like it where it is not; they say which it was, in the figure
`real_data` of their variants.
"""

from __future__ import annotations

import os
from pathlib import Path


def real_data(name: str) -> Path | None:
    """A file or folder of real data: under `BRAID_DATA`, or `../shared/data` seen from the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("BRAID_DATA", beside)) / name
    return path if path.exists() else None
