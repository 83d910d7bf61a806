"""Spark's classes in an archive, which the next JVMs map instead of loading them from their jars.

python tools/archive_classes.py FILE

A JVM that lives for seconds spends most of them on loading and checking classes. So the example's
job is run once, and Java writes the classes that were used when it ends. JVMs that are started
with `-XX:SharedArchiveFile=FILE` take them from there; one that the archive does not fit, because
it is another Java, leaves it alone.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from braid.cli.run import run_job

JOB = Path(__file__).parents[1] / "examples" / "job"
#: Seconds in which a JVM writes its archive when it ends.
PATIENCE = 300


def main(archive: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / archive.name
        given = os.environ.get("SPARK_SUBMIT_OPTS", "")
        os.environ["SPARK_SUBMIT_OPTS"] = f"{given} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        job = Path(folder) / "job"
        shutil.copytree(JOB, job, ignore=shutil.ignore_patterns("output"))
        status = run_job(job / "job.toml", quiet=True)
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # the JVM ends with this process's end of the pipe
            gateway.proc.wait(PATIENCE)
        if status == 0 and made.exists():
            shutil.move(made, archive)
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
