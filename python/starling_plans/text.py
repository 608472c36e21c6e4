# SPDX-License-Identifier: Apache-2.0
"""Plan files: writing and reading the text format that docs/plan-file.md describes."""
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from os import PathLike

from .plan import LINK_ENDS, MEMORY, Lane, Operand, Plan, PlanError, Raw, Source, Step

FIRST_LINE = "starling-plan 1"
_OPERAND = re.compile(rf"({'|'.join(MEMORY + LINK_ENDS)})\[(\d+)(?:,(-?\d+))?\]")
_NUMBERS = ("ranks", "root", "blocks", "scratch", "credits", "chunk_bytes")
_HEAD = ("name", "collective", *_NUMBERS, "determinism")
_LENGTHS = {"bytes": 3, "rank": 2, "lane": 2, "repeat": 2, "end": 1}  # words; of other keys of the head 2


def to_text(plan: Plan, numbered: bool = False) -> str:
    """The plan as a file holds it. `numbered`: with each step's number within its lane, as messages name it."""
    lines = [FIRST_LINE]
    defaults = {item.name: item.default for item in fields(Plan)}
    for key in _HEAD:
        value = getattr(plan, key)
        if value != defaults[key] or key == "determinism":
            lines.append(f"{key} {value}")
    if plan.sizes is not None:
        lines.append(f"bytes {plan.sizes[0]} {plan.sizes[1]}")
    for rank, lanes in enumerate(plan.lanes):
        lines += ["", f"rank {rank}"]
        for number, lane in enumerate(lanes):
            lines.append(f"lane {lane.link_lane}" + (f"  # lane {number} of the plan" if numbered else ""))
            lines += _steps(lane.steps, numbered)
    return "\n".join(lines) + "\n"


def _steps(steps: list[Step], numbered: bool) -> Iterator[str]:
    number = 0
    for step in steps:
        for depth, inner in [(0, step), *((1, inner) for inner in step.body)]:
            line = "  " * depth + str(inner)
            yield f"{line:<60}# step {number}" if numbered else line
            number += 1
        if step.kind == "repeat":
            yield "end"


def save(plan: Plan, path: str | PathLike[str]) -> None:
    """Writes the plan to a file; those that algo-planfile finds in a folder end in .plan."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(to_text(plan))


def load(path: str | PathLike[str]) -> Plan:
    """Reads a plan file; PlanError says "path:line: what is wrong"."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        return parse(content.decode(), str(path))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PlanError(f"{path}:{line}: no text in UTF-8; a plan file begins with {FIRST_LINE!r}") from None


def parse(text: str, path: str = "plan") -> Plan:
    """Reads the text of a plan file; `path` names it in errors."""
    reader = _Reader()
    number = 0
    try:
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].split()
            if words:
                reader.read(words)
        return reader.finish()
    except (PlanError, ValueError, IndexError) as error:
        raise PlanError(f"{path}:{number}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, PlanError):
        return str(error)
    return "the line ends too early" if isinstance(error, IndexError) else f"not a number: {error}"


class _Reader:
    """Takes a file's lines as words, one call a line, and makes the plan of them."""

    def __init__(self) -> None:
        self._head: dict[str, str | int | tuple[int, int]] | None = None
        self._plan: Plan | None = None
        self._lane: Lane | None = None
        self._rank = -1
        self._repeat: tuple[int, int] | None = None  # count, and where its steps begin

    def read(self, words: list[str]) -> None:
        key = words[0]
        length = _LENGTHS.get(key, 2 if self._plan is None else 0)
        if self._head is not None and 0 < length < len(words):
            raise PlanError(f"{words[length]!r} is too much on this line")
        if self._head is None:
            if " ".join(words) != FIRST_LINE:
                raise PlanError(f"{' '.join(words)!r} stands where {FIRST_LINE!r} must stand")
            self._head = {}
        elif key == "rank":
            self._begin_rank(int(words[1]))
        elif self._plan is None:
            self._read_head(key, words)
        elif key == "lane":
            self._lane = self._plan.lane(self._rank, int(words[1]))
        elif self._lane is None:
            raise PlanError("a step stands before the rank's first lane")
        elif key == "repeat":
            if self._repeat is not None:
                raise PlanError("a repeat inside a repeat; end the first one before")
            self._repeat = (int(words[1]), len(self._lane.steps))
        elif key == "end":
            self._end_repeat(self._lane)
        else:
            _add_step(self._lane, _Words(words))

    def finish(self) -> Plan:
        if self._plan is None or self._rank + 1 != self._plan.ranks:
            raise PlanError(f"the file ends before rank {self._rank + 1}; every rank must be there")
        if self._repeat is not None:
            raise PlanError("the file ends inside a repeat; write end")
        return self._plan

    def _read_head(self, key: str, words: list[str]) -> None:
        assert self._head is not None
        if key == "bytes":
            self._head["sizes"] = (int(words[1]), int(words[2]))
        elif key in _HEAD:
            self._head[key] = int(words[1]) if key in _NUMBERS else words[1]
        else:
            raise PlanError(f"{key!r} is no key of a plan's head; those are {', '.join(_HEAD)} and bytes")

    def _begin_rank(self, rank: int) -> None:
        if self._plan is None:
            assert self._head is not None
            missing = [key for key in ("name", "collective", "ranks") if key not in self._head]
            if missing:
                raise PlanError(f"the head lacks {', '.join(missing)}")
            self._plan = Plan(**self._head)  # type: ignore[arg-type]
        if self._repeat is not None:
            raise PlanError("the repeat before has no end")
        if rank != self._rank + 1 or rank >= self._plan.ranks:
            raise PlanError(f"rank {rank} stands where rank {self._rank + 1} of {self._plan.ranks} must stand")
        self._rank, self._lane = rank, None

    def _end_repeat(self, lane: Lane) -> None:
        if self._repeat is None:
            raise PlanError("end without a repeat before it")
        count, begin = self._repeat
        body = tuple(lane.steps[begin:])
        if not body:
            raise PlanError("nothing stands between repeat and end")
        lane.steps[begin:] = [Step("repeat", count=count, body=body)]
        self._repeat = None


class _Words:
    """The words of one line, taken from left to right."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def next(self) -> str:
        return self._words.pop(0)

    def take(self, word: str) -> bool:
        found = bool(self._words) and self._words[0] == word
        if found:
            self._words.pop(0)
        return found

    def has_operand(self) -> bool:
        return bool(self._words) and _OPERAND.fullmatch(self._words[0]) is not None

    def operand(self) -> Operand:
        word = self.next()
        match = _OPERAND.fullmatch(word)
        if match is None:
            raise PlanError(f"{word!r} is no operand; write send[BLOCK], recv[BLOCK], scratch[BLOCK], inbox[RANK] or outbox[RANK]")
        return Operand(match[1], int(match[2]), int(match[3] or 0))

    def source(self) -> Source:
        return Raw(self.operand()) if self.take("raw") else self.operand()

    def of(self) -> Operand | None:
        return self.operand() if self.take("of") else None

    def end(self) -> None:
        if self._words:
            raise PlanError(f"{self._words[0]!r} is too much on this line")


def _add_step(lane: Lane, words: _Words) -> None:
    kind = words.next()
    if kind in ("wait", "reserve", "release", "put"):
        peer = int(words.next())
        source = words.operand() if kind == "put" and words.take("=") else None
        step = Step(kind, peer=peer, a=source, of=words.of())
    elif kind in ("copy", "reduce"):
        targets = []
        while words.has_operand():
            targets.append(words.operand())
        if not words.take("="):
            raise PlanError(f"{kind}: '=' must stand between what is written and what is read")
        a = words.source()
        b = words.source() if kind == "reduce" and words.take("op") else None
        final = kind == "reduce" and words.take("final")
        step = Step(kind, targets=tuple(targets), a=a, b=b, final=final, of=words.of())
    else:
        raise PlanError(f"{kind!r} is no step; those are repeat, wait, reserve, copy, reduce, put, release and end")
    words.end()
    lane._add(step)
