"""Job files: which streams, which queries, which sinks; validated before anything is started.

    [job]                                   # all optional
    name = "prices"
    checkpoint = "checkpoint"               # `braid run` needs it
    trigger = "5 seconds"                   # time between batches ("0 seconds": as fast as it goes),
                                            # or "available now" (the default): all there is, then stop
    shards = 4                              # and other options for sessions only

    [spark]
    master = "local[2]"
    conf = { "spark.driver.memory" = "4g" }

    [[stream]]
    name = "Stock"                          # ["Gold", "Basic"]: events of several streams
    format = "json"                         # any format that Spark reads
    path = "data/stock"
    options = { maxFilesPerTrigger = 1 }
    schema = "Name STRING, Price DOUBLE, ts TIMESTAMP"
    time = "ts"                             # or ["from", "to"]; without: stamped on arrival
    lateness = "10 seconds"
    sequence = "seq"

    [queries]
    files = ["rules/*.cel"]

    [[prepared]]                            # members of a query with FOR EACH in one of the files
    name = "big"
    file = "rules/big.csv"                  # or .parquet: a column for each parameter
    ids = "id"                              # the column that names the members

    [engine]                                # options: docs/configuration.md lists them
    rules = "all"                           # or "none", names of some, { c_seq = false }
    selection.Stock = { form = "asc" }      # how the selections of a stream are indexed

    [control]
    path = "changes"                        # where `braid query` asks for changes while it runs

    [[sink]]
    output = "Jump"                         # a published stream, or matches, late, rejected
    format = "parquet"
    path = "out/jump"

Relative paths are relative to the job file. Every mistake of the file is reported at once.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.errors import BraidError, ConfigError, QueryErrors

if TYPE_CHECKING:
    from braid.engine.options import Options

AVAILABLE_NOW = "available now"
#: Outputs that every session has besides the streams that queries publish.
STANDARD_OUTPUTS = ("matches", "late", "rejected")


@dataclass(frozen=True)
class StreamConfig:
    """A source of events, and the streams that its events are of."""

    names: tuple[str, ...]
    format: str
    path: str | None
    options: Mapping[str, str]
    schema: str | None
    time: tuple[str, ...]
    lateness: str | int | None
    sequence: str | None

    @property
    def name(self) -> str:
        """The source as messages call it."""
        return " + ".join(self.names)

    @property
    def declares(self) -> bool:
        """Whether it has more than the place of events: then the streams cannot exist yet."""
        return bool(self.time) or self.lateness is not None or self.sequence is not None


@dataclass(frozen=True)
class SinkConfig:
    output: str
    format: str
    path: str | None
    options: Mapping[str, str]


@dataclass(frozen=True)
class PreparedConfig:
    """Rows of parameters for a prepared query."""

    name: str
    file: Path
    ids: str | None


#: The value of `Engine(rules=...)`; None is all.
Rules = str | list[str] | dict[str, bool] | None


@dataclass(frozen=True)
class Job:
    file: Path
    name: str
    checkpoint: str | None
    trigger: str
    master: str | None
    spark_conf: Mapping[str, str]
    streams: tuple[StreamConfig, ...]
    query_files: tuple[Path, ...]
    sinks: tuple[SinkConfig, ...]
    options: Options
    prepared: tuple[PreparedConfig, ...] = ()
    control: str | None = None


def load_job(path: str | Path) -> Job:
    """Read and validate a job file. Raises all errors together."""
    file = Path(path)
    if not file.is_file():
        raise ConfigError("E451", f"there is no job file {file}", "give the path of a .toml file")
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except RecursionError:
        raise ConfigError("E452", f"{file} is nested too deeply") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise ConfigError("E452", f"{file} is not TOML: {error}") from None
    return _Reader(file).job(data)


@dataclass
class _Reader:
    """A reader of the tables of the file that collects errors."""

    file: Path
    problems: list[BraidError] = field(default_factory=list)

    def job(self, data: dict[str, Any]) -> Job:
        tables = ("job", "spark", "stream", "queries", "prepared", "engine", "control", "sink")
        self.known(data, "the file", tables)
        head = self.table(data, "job")
        self.known(head, "[job]", ("name", "checkpoint", "trigger", *_options_in("job")))
        spark = self.table(data, "spark")
        self.known(spark, "[spark]", ("master", "conf"))
        queries = self.table(data, "queries")
        self.known(queries, "[queries]", ("files",))
        engine = self.table(data, "engine")
        self.known(engine, "[engine]", _options_in("engine"))
        control = self.table(data, "control")
        self.known(control, "[control]", ("path",))
        job = Job(
            file=self.file,
            name=self.text(head, "[job]", "name") or self.file.stem,
            checkpoint=self.location(self.text(head, "[job]", "checkpoint")),
            trigger=self.trigger(head),
            master=self.text(spark, "[spark]", "master"),
            spark_conf=self.options(spark, "[spark]", "conf"),
            streams=tuple(self.stream(t, i) for i, t in self.tables(data, "stream")),
            query_files=self.query_files(queries),
            sinks=tuple(self.sink(t, i) for i, t in self.tables(data, "sink")),
            prepared=tuple(self.prepared(t, i) for i, t in self.tables(data, "prepared")),
            options=self.engine_options({"job": head, "engine": engine}),
            control=self.control(control) if "control" in data else None,
        )
        self.distinct("stream", [s.name for s in job.streams])
        if not job.streams and not self.problems:
            self.problem("E454", "the job has no [[stream]]", "name at least one source of events")
        if self.problems:
            raise self.problems[0] if len(self.problems) == 1 else QueryErrors(self.problems)
        return job

    # -- the parts --

    def stream(self, table: dict[str, Any], number: int) -> StreamConfig:
        names = self.stream_names(table, f"[[stream]] {number}")
        where = f"[[stream]] '{' + '.join(names)}'"
        keys = ("name", "format", "path", "options", "schema", "time", "lateness", "sequence")
        self.known(table, where, keys)
        return StreamConfig(
            names=names,
            format=self.text(table, where, "format", required=True) or "?",
            path=self.location(self.text(table, where, "path")),
            options=self.options(table, where, "options"),
            schema=self.text(table, where, "schema"),
            time=self.time(table, where),
            lateness=self.lateness(table, where),
            sequence=self.text(table, where, "sequence"),
        )

    def stream_names(self, table: dict[str, Any], where: str) -> tuple[str, ...]:
        """One name, or a list: then each event is one of all these streams."""
        value = table.get("name")
        if not isinstance(value, list):
            return (self.text(table, where, "name", required=True) or "?",)
        if value and all(isinstance(n, str) and n for n in value) and len({*value}) == len(value):
            return tuple(value)
        self.problem("E455", f"{where}: name must be a text, or a list of texts, each once")
        return ("?",)

    def sink(self, table: dict[str, Any], number: int) -> SinkConfig:
        output = self.text(table, f"[[sink]] {number}", "output", required=True) or "?"
        where = f"[[sink]] '{output}'"
        self.known(table, where, ("output", "format", "path", "options"))
        return SinkConfig(
            output=output,
            format=self.text(table, where, "format", required=True) or "?",
            path=self.location(self.text(table, where, "path")),
            options=self.options(table, where, "options"),
        )

    def prepared(self, table: dict[str, Any], number: int) -> PreparedConfig:
        name = self.text(table, f"[[prepared]] {number}", "name", required=True) or "?"
        where = f"[[prepared]] '{name}'"
        self.known(table, where, ("name", "file", "ids"))
        file = self.file.parent / (self.text(table, where, "file", required=True) or "?")
        if "file" in table and not file.is_file():
            self.problem("E456", f"{where}: there is no file {file}", self.base())
        return PreparedConfig(name, file, self.text(table, where, "ids"))

    def engine_options(self, tables: Mapping[str, dict[str, Any]]) -> Options:
        """The options that the tables have; the others have their defaults."""
        from braid.engine.options import Options, all_options

        given: dict[str, Any] = {}
        for name, option in all_options().items():
            table = tables[option.table]
            if name not in table:
                continue
            try:
                given[name] = option.checked_in_file(table[name])
            except ConfigError as error:
                self.problem(error.code, f"[{option.table}] {error.message}", error.hint)
        return Options(**given)

    def control(self, control: dict[str, Any]) -> str | None:
        return self.location(self.text(control, "[control]", "path", required=True))

    def query_files(self, queries: dict[str, Any]) -> tuple[Path, ...]:
        patterns = queries.get("files", [])
        if isinstance(patterns, str):
            patterns = [patterns]
        if not isinstance(patterns, list) or not all(isinstance(p, str) for p in patterns):
            self.problem("E455", "[queries] files must be a list of paths")
            return ()
        if not patterns:
            hint = 'for example: [queries] files = ["rules/*.cel"]'
            self.problem("E454", "[queries] names no files", hint)
        from braid.lang.catalog.files import query_files

        found: dict[Path, None] = {}
        for pattern in patterns:
            matches = query_files(pattern, self.file.parent)
            if not matches:
                self.problem("E456", f"[queries] files: nothing matches '{pattern}'", self.base())
            found.update(dict.fromkeys(matches))
        return tuple(found)

    def trigger(self, head: dict[str, Any]) -> str:
        text = self.text(head, "[job]", "trigger") or AVAILABLE_NOW
        if text.replace("_", " ").lower() == AVAILABLE_NOW:
            return AVAILABLE_NOW
        from braid.lang import parse_duration

        try:
            parse_duration(text)
        except BraidError:
            hint = f'"{AVAILABLE_NOW}" or a time such as "5 seconds"'
            self.problem("E455", f"[job] trigger = {text!r} is neither a time nor known", hint)
        return text

    def time(self, table: dict[str, Any], where: str) -> tuple[str, ...]:
        value = table.get("time", [])
        columns = [value] if isinstance(value, str) else value
        good = isinstance(columns, list) and all(isinstance(c, str) for c in columns)
        if not good or len(columns) > 2:
            self.problem("E455", f"{where}: time must be one column, or two: start and end")
            return ()
        return tuple(columns)

    def lateness(self, table: dict[str, Any], where: str) -> str | int | None:
        value = table.get("lateness")
        if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
            return value
        hint = 'for example "10 seconds", or a number of ticks'
        self.problem("E455", f"{where}: lateness must be a time", hint)
        return None

    # -- the pieces --

    def problem(self, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(ConfigError(code, f"{self.file}: {message}", hint))

    def base(self) -> str:
        return f"paths are relative to {self.file.parent.resolve()}"

    def location(self, path: str | None) -> str | None:
        """A path for Spark: a URL as it is, any other relative to the job file."""
        if path is None or "://" in path:
            return path
        return str((self.file.parent / path).resolve())

    def table(self, data: dict[str, Any], key: str) -> dict[str, Any]:
        value = data.get(key, {})
        if isinstance(value, dict):
            return value
        self.problem("E455", f"'{key}' must be a table: write [{key}]")
        return {}

    def tables(self, data: dict[str, Any], key: str) -> list[tuple[int, dict[str, Any]]]:
        value = data.get(key, [])
        if isinstance(value, list) and all(isinstance(v, dict) for v in value):
            return list(enumerate(value, 1))
        self.problem("E455", f"'{key}' must be an array of tables: write [[{key}]]")
        return []

    def text(
        self, table: dict[str, Any], where: str, key: str, *, required: bool = False
    ) -> str | None:
        value = table.get(key)
        if value is None:
            if required:
                self.problem("E454", f"{where} lacks '{key}'")
            return None
        if not isinstance(value, str) or not value:
            self.problem("E455", f"{where}: {key} must be a text, not {value!r}")
            return None
        return value

    def options(self, table: dict[str, Any], where: str, key: str) -> dict[str, str]:
        """Options as texts for Spark: true and not True; dotted keys joined."""
        value = table.get(key, {})
        if not isinstance(value, dict):
            self.problem("E455", f"{where}: {key} must be a table")
            return {}
        flat: dict[str, str] = {}
        for name, option in _flatten(value):
            if not isinstance(option, str | int | float | bool):
                self.problem("E455", f"{where}: {key} '{name}' must be a text, number or boolean")
                continue
            flat[name] = str(option).lower() if isinstance(option, bool) else str(option)
        return flat

    def known(self, table: dict[str, Any], where: str, keys: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(keys)}"
                self.problem("E453", f"{where} has an unknown key '{key}'", hint)

    def distinct(self, what: str, names: list[str]) -> None:
        for name in dict.fromkeys(n for n in names if names.count(n) > 1 and n != "?"):
            self.problem("E457", f"there are several [[{what}]] named '{name}'")


def _options_in(table: str) -> tuple[str, ...]:
    """The options that a table of the file may have."""
    from braid.engine.options import all_options

    return tuple(name for name, option in all_options().items() if option.table == table)


def parse_rules(text: str | None) -> Rules:
    """`--rules`: all, none, `a,b` for these only, or `-a,-b` for all but these."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names and all(name.startswith("-") for name in names):
        return _checked_rules({name[1:]: False for name in names})
    return _checked_rules(names if names not in (["all"], ["none"]) else names[0])


def _checked_rules(value: Rules) -> Rules:
    from braid.engine.options import all_options

    all_options()["rules"].checked(value)
    return value


def _flatten(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """`spark.driver.memory = "4g"` without quotes is a nested table in TOML. Join its keys again."""
    flat: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            flat.extend(_flatten(value, f"{prefix}{key}."))
        else:
            flat.append((f"{prefix}{key}", value))
    return flat
