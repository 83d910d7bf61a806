"""Small files beside a checkpoint, on any file system that Spark can reach."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class Files:
    """Reads and writes through Hadoop's file systems, as Spark's own checkpoint does."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()

    def _open(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._conf), place

    def exists(self, path: str) -> bool:
        system, place = self._open(path)
        return bool(system.exists(place))

    def has_child(self, path: str, prefix: str) -> bool:
        """Whether a directory has an entry whose name starts so."""
        system, place = self._open(path)
        if not system.exists(place):
            return False
        return any(s.getPath().getName().startswith(prefix) for s in system.listStatus(place))

    def make_directory(self, path: str) -> None:
        system, place = self._open(path)
        system.mkdirs(place)

    def read_text(self, path: str) -> str:
        system, place = self._open(path)
        stream = system.open(place)
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return text
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Replace a file so that a reader sees the old text or the new one, never a part."""
        _, place = self._open(path)
        managers = self._jvm.org.apache.spark.sql.execution.streaming.checkpointing
        manager = managers.CheckpointFileManager.create(place.getParent(), self._conf)
        manager.mkdirs(place.getParent())
        stream = manager.createAtomic(place, True)
        stream.write(bytearray(text.encode()))
        stream.close()
