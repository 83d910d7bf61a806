"""Blocks in JSONPath: `S$.book->x1[.author->x2]`. They have the same steps as blocks in XPath.

The document, `$`, is the first step. Members are children, and `..` leads to descendants. The name
of an array refers to its elements, so no step uses an index. Errors name the parts of JSONPath that
blocks don't support.
"""

from __future__ import annotations

from braid.algebra.documents import DOCUMENT, Axis
from braid.lang.parse.block_tokens import LEFT_OUT, OPERATORS, BlockTokens
from braid.lang.parse.problems import Problem
from braid.lang.parse.tokens import unquote
from braid.lang.parse.xml_syntax import Predicate, Step, Word

SUPPORTED = (
    "supported are .name, ..name, ['name'], .*, ..*, [.path], [.path = constant] with AND, "
    "and -> or AS for variables"
)
_EACH = "the name of an array stands for each of its elements; "


class JsonPaths(BlockTokens):
    """A parser of paths of members."""

    def _document(self) -> tuple[Step, ...]:
        """A path from `$`."""
        start = self._at()
        self.position += 1
        first = self._rest(Axis.CHILD, Word(DOCUMENT, False, self._since(start)), start[0])
        return (first, *self._members())

    def _members(self) -> tuple[Step, ...]:
        """The steps from a node; empty if no step begins here."""
        steps: list[Step] = []
        while True:
            if self._now == "[" and not self._is_name_in_brackets():
                raise self._problem()
            if self._now not in (".", "["):
                return tuple(steps)
            start = self._at()
            axis, name = self._member()
            steps.append(self._rest(axis, name, start[0]))

    def _rest(self, axis: Axis, name: Word | None, start: int) -> Step:
        """The rest of a step."""
        variable = self._variable()
        predicates: list[Predicate] = []
        while self._now in ("[", "[?") and not self._is_name_in_brackets():
            predicates += self._conditions()
        if variable is None:
            variable = self._variable()
        step = Step(axis, name, variable, tuple(predicates), self._since((start, start)))
        if self._now in ("/", "//", "@"):
            raise self._outside(f"XPath ({self._now}) behind JSONPath")
        return step

    def _is_name_in_brackets(self) -> bool:
        place = self.position + 1
        return (
            self._now == "["
            and place < len(self._tokens)
            and self._tokens[place].type == "STRING"
            and self._peek(2) == "]"
        )

    def _member(self) -> tuple[Axis, Word | None]:
        """`.name`, `..name`, `.*`, `['name']`. A dot may precede brackets."""
        axis = Axis.CHILD
        if self._take(".") and self._now == "." and self._adjacent(0):
            axis = Axis.DESCENDANT
            self.position += 1
        if self._now == "[":
            if not self._is_name_in_brackets():
                raise self._problem()
            start = self._at()
            self.position += 3
            return axis, Word(unquote(self._tokens[self.position - 2]), False, self._since(start))
        if self._take("*"):
            return axis, None
        word = self._word("the name of a member", SUPPORTED)
        if self._now == "(" and self._adjacent(0):
            raise self._outside(f"the function {word.name}()")
        return axis, word

    # --- predicates ---

    def _conditions(self) -> list[Predicate]:
        """The predicate in brackets after a step."""
        if self._now == "[?" or self._peek() not in (".", ""):
            raise self._problem()
        self.position += 1
        found = [self._condition()]
        while self._take("AND"):
            found.append(self._condition())
        if self._now.upper() in LEFT_OUT:
            raise self._outside(LEFT_OUT[self._now.upper()])
        self._expect("]", "after a predicate")
        return found

    def _condition(self) -> Predicate:
        start = self._at()
        steps: tuple[Step, ...] = ()
        if self._now == "." and self._peek() in OPERATORS:
            self.position += 1
        else:
            if self._now != ".":
                self._expect(".", "at the beginning of a predicate")
            steps = self._members()
        operator, literal = None, None
        if self._now in OPERATORS:
            operator = OPERATORS[self._now]
            self.position += 1
            literal = self._literal()
            if literal is None:
                raise self._outside("comparing two paths in a predicate")
        return Predicate(steps, operator, literal, self._since(start))

    # --- unsupported parts ---

    def _outside(self, what: str, hint: str = "") -> Problem:
        message = f"{what} is not supported in a block"
        return Problem("E231", message, self._at(), hint + SUPPORTED)

    def _problem(self) -> Problem:
        """The error for brackets that contain neither a name nor a predicate."""
        if self._now == "[?":
            return self._outside("a filter ?()", "write [.price > 10] for [?(@.price > 10)]; ")
        self.position += 1
        inside = []
        while self._now not in ("]", ""):
            inside.append(self._tokens[self.position])
            self.position += 1
        self.position -= len(inside)
        if inside and any(token == ":" for token in inside) and not inside[-1].isalpha():
            return self._outside("a slice", _EACH)
        if any(token == "," for token in inside):
            return self._outside("a union of several names or places", "write one query for each; ")
        if inside and inside[-1].type == "NUMBER" and len(inside) <= 2:
            return self._outside(f"the index [{''.join(inside)}]", _EACH)
        if inside and inside[0] == "*":
            return self._outside("[*]", _EACH + "write .* for its members; ")
        if inside and inside[0] == "(":
            return self._outside("a computed name ()")
        if inside and inside[0] == "@":
            return self._outside("@", "write [.price] for @.price; ")
        if inside and inside[0] in ("/", "//"):
            return self._outside(f"XPath ({self._now})", "write [.name] or [..name]; ")
        dotted = bool(inside) and inside[0] == "."
        message = "a predicate cannot stand here" if dotted else "a predicate begins with a dot"
        return Problem("E220", message, self._at(), SUPPORTED)
