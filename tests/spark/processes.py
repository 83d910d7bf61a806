"""The processes of a job as the operating system shows them, for tests that kill some of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

#: What a process of a job is: Spark's JVM, the process that workers are forked from, a worker.
JVM, DAEMON, WORKER = "jvm", "daemon", "worker"


@dataclass(frozen=True)
class Process:
    name: str
    parent: int
    group: int


def _table() -> dict[int, Process]:
    """Every process that has not ended."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            name, _, rest = text.partition("(")[2].rpartition(")")
            state, parent, group = rest.split()[:3]
            if state != "Z":
                found[int(entry.name)] = Process(name, int(parent), int(group))
    return found


@dataclass
class Job:
    """The processes below a driver. A daemon leads a group of its own, and its workers stay in it
    when the daemon itself is gone: so they are found by the daemons that were ever seen."""

    root: int
    _daemons: set[int] = field(default_factory=set)

    def processes(self) -> dict[str, list[int]]:
        known = _table()
        jvms = [pid for pid, p in known.items() if p.name == "java" and self._is_below(pid, known)]
        daemons = [
            pid for pid, p in known.items() if p.parent in jvms and p.name.startswith("python")
        ]
        self._daemons.update(daemons)
        workers = [
            pid for pid, p in known.items() if p.group in self._daemons and pid not in daemons
        ]
        return {JVM: sorted(jvms), DAEMON: sorted(daemons), WORKER: sorted(workers)}

    def _is_below(self, pid: int, known: dict[int, Process]) -> bool:
        while pid in known:
            pid = known[pid].parent
            if pid == self.root:
                return True
        return False
