"""The syntax tree: a text as parsed, before names have a meaning.

Immutable. `at` is the place of each part in the text, as character offsets. Lines and columns are
computed only for an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from braid.lang.parse.problems import At
from braid.lang.parse.xml_syntax import Documents


@dataclass(frozen=True, slots=True)
class Ident:
    """The name of a stream, an attribute, a query or a type, as written."""

    name: str
    at: At


# --- scalar expressions ---


@dataclass(frozen=True, slots=True)
class Name:
    """An attribute; `decorator` is "$1", "$2", "$" or None."""

    decorator: str | None
    name: str
    at: At


@dataclass(frozen=True, slots=True)
class Number:
    text: str
    at: At


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    at: At


@dataclass(frozen=True, slots=True)
class Markup:
    """`<a id="{x}">text {y}</a>`: texts, and the values between them.

    `inside`: for each value, whether it is part of an attribute.
    """

    texts: tuple[str, ...]
    values: tuple[Scalar, ...]
    inside: tuple[bool, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | None
    at: At


@dataclass(frozen=True, slots=True)
class Period:
    """A length of time such as `10min`."""

    microseconds: int
    at: At


@dataclass(frozen=True, slots=True)
class Parameter:
    """`:name`, a constant for which each member of a prepared query has its own value."""

    name: str
    at: At


@dataclass(frozen=True, slots=True)
class Dur:
    at: At


@dataclass(frozen=True, slots=True)
class Prefix:
    operator: str
    operand: Scalar
    at: At


@dataclass(frozen=True, slots=True)
class Infix:
    operator: str
    left: Scalar
    right: Scalar
    at: At


@dataclass(frozen=True, slots=True)
class Junction:
    """AND or OR of two or more parts; `operator` is "and" or "or"."""

    operator: str
    parts: tuple[Scalar, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Between:
    operand: Scalar
    low: Scalar
    high: Scalar
    negated: bool
    at: At


@dataclass(frozen=True, slots=True)
class Among:
    """`x IN (...)`."""

    operand: Scalar
    choices: tuple[Scalar, ...]
    negated: bool
    at: At


@dataclass(frozen=True, slots=True)
class Like:
    operand: Scalar
    pattern: Scalar
    negated: bool
    at: At


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Scalar
    negated: bool
    at: At


@dataclass(frozen=True, slots=True)
class Case:
    subject: Scalar | None
    branches: tuple[tuple[Scalar, Scalar], ...]
    otherwise: Scalar | None
    at: At


@dataclass(frozen=True, slots=True)
class Cast:
    operand: Scalar
    type: TypeName
    at: At


@dataclass(frozen=True, slots=True)
class Apply:
    """A function call; `star` is `count(*)`."""

    function: Ident
    args: tuple[Scalar, ...]
    distinct: bool
    star: bool
    at: At


@dataclass(frozen=True, slots=True)
class Field:
    operand: Scalar
    name: Ident
    at: At


@dataclass(frozen=True, slots=True)
class Element:
    operand: Scalar
    index: Scalar
    at: At


Scalar = (
    Name
    | Number
    | Text
    | Markup
    | Constant
    | Period
    | Parameter
    | Dur
    | Prefix
    | Infix
    | Junction
    | Between
    | Among
    | Like
    | IsNull
    | Case
    | Cast
    | Apply
    | Field
    | Element
)


# --- streams ---


@dataclass(frozen=True, slots=True)
class Everything:
    """`*` in SELECT, or `A.*` of one input."""

    at: At
    of: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """`expression [AS name]`."""

    expression: Scalar
    name: Ident | None
    at: At


@dataclass(frozen=True, slots=True)
class Source:
    name: Ident
    at: At


@dataclass(frozen=True, slots=True)
class Filter:
    predicate: Scalar
    input: Stream
    at: At


@dataclass(frozen=True, slots=True)
class Next:
    first: Stream
    second: Stream
    predicate: Scalar | None
    at: At


@dataclass(frozen=True, slots=True)
class Fold:
    """`at` is the place of the word FOLD, where errors of the whole are shown."""

    first: Stream
    second: Stream
    predicate: Scalar | None
    rebind: Scalar | None
    aggregates: tuple[Item | Everything, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Union:
    first: Stream
    second: Stream
    at: At


@dataclass(frozen=True, slots=True)
class SameTime:
    aggregates: tuple[Item | Everything, ...]
    input: Stream
    at: At


@dataclass(frozen=True, slots=True)
class Query:
    """`[SELECT items] FROM stream [PUBLISH name]`; without SELECT, `items` is None."""

    items: tuple[Item | Everything, ...] | None
    stream: Stream
    publish: Ident | None
    at: At


# --- relations ---


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute in PARTITION BY, with the name of the input before it if one is given."""

    qualifier: Ident | None
    name: Ident
    at: At


@dataclass(frozen=True, slots=True)
class Window:
    """`kind` is range, rows, now or unbounded; the first two have a `size`."""

    kind: str
    size: Period | Number | Parameter | None
    keys: tuple[Column, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Windowed:
    """`(stream [window])`: a relation in parentheses."""

    stream: Stream
    window: Window
    at: At


@dataclass(frozen=True, slots=True)
class Input:
    """An input of FROM: `stream [window] [AS alias]`."""

    stream: Stream
    window: Window | None
    alias: Ident | None
    at: At


@dataclass(frozen=True, slots=True)
class Relational:
    """A CQL query: it has more than `SELECT items FROM stream`.

    `items` is None without SELECT. `to_stream` is Istream, Dstream or Rstream, in either form. `at`
    is the place of its first relational word.
    """

    items: tuple[Item | Everything, ...] | None
    distinct: bool
    to_stream: Ident | None
    inputs: tuple[Input, ...]
    where: Scalar | None
    group: tuple[Scalar, ...]
    having: Scalar | None
    publish: Ident | None
    at: At


@dataclass(frozen=True, slots=True)
class Setting:
    """A clause of DETECT: its word, its operands, and a length of time."""

    word: str
    values: tuple[Number | Ident | Column, ...]
    length: Period | Number | None
    at: At


@dataclass(frozen=True, slots=True)
class Detect:
    """`DETECT name FROM inputs WHERE predicate`, with its settings."""

    inputs: tuple[Input, ...]
    where: Scalar | None
    settings: tuple[Setting, ...]
    publish: Ident | None
    at: At


AnyQuery = Query | Relational | Detect
Stream = (
    Source
    | Filter
    | Next
    | Fold
    | Union
    | SameTime
    | Query
    | Relational
    | Windowed
    | Detect
    | Documents
)


# --- types and statements ---


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as written: `sizes` of DECIMAL(10, 2), `fields` of ARRAY, MAP and STRUCT."""

    name: Ident
    sizes: tuple[int, ...]
    fields: tuple[tuple[Ident | None, TypeName], ...]
    at: At


@dataclass(frozen=True, slots=True)
class Option:
    """A clause of CREATE STREAM: `kind` is time, sequence, lateness or sharable."""

    kind: str
    names: tuple[Ident, ...]
    amount: Period | Number | None
    at: At


@dataclass(frozen=True, slots=True)
class CreateStream:
    name: Ident
    columns: tuple[tuple[Ident, TypeName], ...]
    options: tuple[Option, ...]
    at: At


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """`parameters` are those of FOR EACH; a query with parameters is a prepared one. `mode` follows
    CONSTRAINTS."""

    name: Ident
    parameters: tuple[tuple[Ident, TypeName], ...]
    query: AnyQuery
    at: At
    mode: Ident | None = None


@dataclass(frozen=True, slots=True)
class CreateView:
    """`columns` are the names of the results, if the statement has any."""

    name: Ident
    columns: tuple[Ident, ...]
    query: AnyQuery
    at: At


@dataclass(frozen=True, slots=True)
class DropView:
    name: Ident
    at: At


@dataclass(frozen=True, slots=True)
class DropQuery:
    name: Ident
    at: At


@dataclass(frozen=True, slots=True)
class Within:
    """The slack of a constraint; `unit` is rows, ticks or time."""

    amount: Number | Period
    unit: str
    at: At


@dataclass(frozen=True, slots=True)
class CreateConstraint:
    """`kind` is the word for the property: key, references, clustered, ..."""

    name: Ident
    kind: str
    stream: Ident
    attributes: tuple[Ident, ...]
    target: Ident | None
    target_attributes: tuple[Ident, ...]
    within: Within | None
    at: At


@dataclass(frozen=True, slots=True)
class DropConstraint:
    name: Ident
    at: At


Statement = (
    CreateStream
    | CreateQuery
    | CreateView
    | CreateConstraint
    | DropQuery
    | DropView
    | DropConstraint
    | Query
    | Relational
)
