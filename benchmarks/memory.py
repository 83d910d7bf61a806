"""Memory counted: resident size of a process now, and its peak with that of its children."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

PROC = Path("/proc")


def peak_rss() -> int:
    """Bytes: this process's own peak plus the peaks of its living descendants, where /proc tells."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    own *= 1 if sys.platform == "darwin" else 1024
    if not PROC.is_dir():
        return own
    return own + sum(_high_water_mark(pid) for pid in _descendants(os.getpid()))


def resident() -> int:
    """Bytes of this process in memory now, where /proc tells; otherwise at most so far."""
    status = PROC / "self" / "statm"
    if not status.exists():
        return peak_rss()
    return int(status.read_text(encoding="utf-8").split()[1]) * resource.getpagesize()


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            parent = _parent(int(entry.name))
            if parent is not None:
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    left = [root]
    while left:
        below = children.get(left.pop(), [])
        found.extend(below)
        left.extend(below)
    return found


def _status(pid: int, field: str) -> str | None:
    try:
        text = (PROC / str(pid) / "status").read_text(encoding="utf-8")
    except OSError:  # it has ended meanwhile
        return None
    for line in text.splitlines():
        if line.startswith(f"{field}:"):
            return line.partition(":")[2].split()[0]
    return None


def _parent(pid: int) -> int | None:
    value = _status(pid, "PPid")
    return None if value is None else int(value)


def _high_water_mark(pid: int) -> int:
    value = _status(pid, "VmHWM")
    return 0 if value is None else int(value) * 1024
