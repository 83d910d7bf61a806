"""The processes of a job as the operating system shows them, for tests that kill some of them."""

from __future__ import annotations

from pathlib import Path

#: What a process of a job is: Spark's JVM, the process that workers are forked from, a worker.
JVM, DAEMON, WORKER = "jvm", "daemon", "worker"


def _stat(pid: int) -> tuple[str, int] | None:
    """The name and the parent of a process; None if it is gone or has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    state, parent = rest.split()[:2]
    return None if state == "Z" else (name, int(parent))


def processes_of(root: int) -> dict[str, list[int]]:
    """The JVM, daemons and workers among the descendants of a process."""
    pids = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    known = {pid: found for pid in pids if (found := _stat(pid)) is not None}
    kinds: dict[str, list[int]] = {JVM: [], DAEMON: [], WORKER: []}
    for pid, (name, parent) in sorted(known.items()):
        if not _descends(pid, root, known):
            continue
        if name == "java":
            kinds[JVM].append(pid)
        elif name.startswith("python") and parent in known:
            above = known[parent]
            if above[0] == "java":
                kinds[DAEMON].append(pid)
            elif above[0].startswith("python") and known.get(above[1], ("", 0))[0] == "java":
                kinds[WORKER].append(pid)
    return kinds


def _descends(pid: int, root: int, known: dict[int, tuple[str, int]]) -> bool:
    while pid in known:
        pid = known[pid][1]
        if pid == root:
            return True
    return False
