# SPDX-License-Identifier: Apache-2.0
"""A plan as Python objects: operands, steps, lanes, and the plan that holds them."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
DETERMINISM = ("none", "run", "rank", "world_size")
MEMORY = ("send", "recv", "scratch")
LINK_ENDS = ("inbox", "outbox")


class PlanError(ValueError):
    """Something that cannot be part of a plan; the text says what, where, and what can."""


@dataclass(frozen=True)
class Operand:
    """A block of a buffer, or the chunk at one end of a link. `step` is added at each repetition of a repeat."""

    buffer: str
    index: int
    step: int = 0

    def __str__(self) -> str:
        return f"{self.buffer}[{self.index},{self.step}]" if self.step else f"{self.buffer}[{self.index}]"


@dataclass(frozen=True)
class Raw:
    """An operand that is a rank's own contribution, so that a premultiplied sum or an average knows what to scale."""

    operand: Operand

    def __str__(self) -> str:
        return f"raw {self.operand}"


def raw(operand: Operand) -> Raw:
    """Marks the operand of a reduction that comes from a send buffer and has not been through a reduction yet."""
    return Raw(operand)


class Buffer:
    """`send[3]` is block 3; `send[3, -1]`, inside a repeat, block 3, then 2, 1 …; `inbox[2]` what came from rank 2."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, key: int | tuple[int, int]) -> Operand:
        index, step = key if isinstance(key, tuple) else (key, 0)
        if index < 0:
            raise PlanError(f"{self._name}[{index}]: blocks and ranks count from 0")
        if step and self._name in LINK_ENDS:
            raise PlanError(f"{self._name}[{index}, {step}]: a link's end does not move in a repeat")
        return Operand(self._name, index, step)


send = Buffer("send")
recv = Buffer("recv")
scratch = Buffer("scratch")
inbox = Buffer("inbox")
outbox = Buffer("outbox")

Source = Operand | Raw


@dataclass(frozen=True)
class Step:
    """One step. Which fields are used depends on `kind`, the first word of its line in a plan file."""

    kind: str
    peer: int = -1
    targets: tuple[Operand, ...] = ()
    a: Source | None = None
    b: Source | None = None
    final: bool = False
    of: Operand | None = None
    count: int = 0  # of a repeat, whose steps are `body`
    body: tuple[Step, ...] = ()

    def peers(self) -> list[int]:
        """The ranks at the other ends of the links that the step uses."""
        sources = (source.operand if isinstance(source, Raw) else source for source in (self.a, self.b))
        ends = [operand.index for operand in (*self.targets, *sources) if operand and operand.buffer in LINK_ENDS]
        return [self.peer, *ends] if self.kind in ("wait", "reserve", "put", "release") else ends

    def shape(self) -> Operand | None:
        """The block whose part the step moves: `of`, else the first block that the step names."""
        if self.of is not None:
            return self.of
        for operand in (self.a, self.b, *self.targets):
            operand = operand.operand if isinstance(operand, Raw) else operand
            if operand is not None and operand.buffer in MEMORY:
                return operand
        return None

    def __str__(self) -> str:
        """The step's line in a plan file."""
        words = [self.kind]
        if self.kind == "repeat":
            return f"repeat {self.count}"
        if self.peer >= 0:
            words.append(str(self.peer))
        words += [str(target) for target in self.targets]
        if self.a is not None:
            words += ["=", str(self.a)]
        if self.b is not None:
            words += ["op", str(self.b)]
        if self.final:
            words.append("final")
        if self.of is not None:
            words += ["of", str(self.of)]
        return " ".join(words)


@dataclass
class Lane:
    """Steps of one rank that run in order; the lanes of a rank run at the same time."""

    rank: int
    link_lane: int = 0
    ranks: int = 1024  # of the plan
    steps: list[Step] = field(default_factory=list)
    _repeated: list[Step] | None = None

    def wait(self, peer: int, of: Operand) -> None:
        """Until a chunk from `peer` is here; it becomes inbox[peer]."""
        self._add(Step("wait", peer=peer, of=of))

    def release(self, peer: int, of: Operand) -> None:
        """inbox[peer] may be reused by its sender."""
        self._add(Step("release", peer=peer, of=of))

    def reserve(self, peer: int, of: Operand) -> None:
        """Until the link to `peer` has room for a chunk; it becomes outbox[peer]."""
        self._add(Step("reserve", peer=peer, of=of))

    def put(self, peer: int, of: Operand | None = None, source: Operand | None = None) -> None:
        """outbox[peer] goes on its way; with `source`, waits for room and puts that block, unchanged."""
        self._add(Step("put", peer=peer, a=source, of=of))

    def copy(self, *targets: Operand, source: Operand, of: Operand | None = None) -> None:
        """One or two targets get what `source` holds."""
        self._add(Step("copy", targets=targets, a=source, of=of))

    def reduce(self, *targets: Operand, a: Source, b: Source | None = None, final: bool = False,
               of: Operand | None = None) -> None:
        """One or two targets get `a op b`, in that order. `final`: the result is complete."""
        self._add(Step("reduce", targets=targets, a=a, b=b, final=final, of=of))

    @contextmanager
    def repeat(self, count: int) -> Iterator[None]:
        """The steps added inside run `count` times; a repeat of 0 times leaves them out."""
        if self._repeated is not None:
            raise PlanError(f"rank {self.rank}: a repeat inside a repeat; end the first one before")
        self._repeated = []
        try:
            yield
            body = tuple(self._repeated)
        finally:
            self._repeated = None
        if count > 0 and body:
            self.steps.append(Step("repeat", count=count, body=body))

    def _add(self, step: Step) -> None:
        place = f"rank {self.rank}: {step}"
        for peer in step.peers():
            if not 0 <= peer < self.ranks:
                raise PlanError(f"rank {self.rank}: {step.kind}: rank {peer} is not one of the {self.ranks}")
            if peer == self.rank:
                raise PlanError(f"{place}: rank {peer} is this rank itself; links lead to other ranks")
        if step.kind in ("copy", "reduce") and not 1 <= len(step.targets) <= 2:
            raise PlanError(f"{place}: {len(step.targets)} targets, there must be one or two")
        for target in step.targets:
            if target.buffer in ("send", "inbox"):
                raise PlanError(f"{place}: {target} can only be read")
        shape = step.shape()
        if shape is None or shape.buffer not in MEMORY:
            raise PlanError(f"{place}: say whose part this step moves with of=send[…], of=recv[…] or of=scratch[…]")
        (self.steps if self._repeated is None else self._repeated).append(step)


@dataclass
class Plan:
    """One collective for a fixed number of ranks and any number of elements."""

    name: str
    collective: str
    ranks: int
    blocks: int = 1  # that the elements are cut into; all_reduce, broadcast and reduce
    scratch: int = 0  # blocks of scratch memory
    credits: int = 1  # chunks that a link must hold each way, so that the plan never waits for itself
    root: int | None = None
    determinism: str = "run"
    chunk_bytes: int | None = None  # largest chunk; the links' own limit holds, too
    sizes: tuple[int, int] | None = None  # bytes of the operation that the plan is for, inclusive
    lanes: list[list[Lane]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.collective not in COLLECTIVES:
            raise PlanError(f"{self.collective!r} is no collective; those are {', '.join(COLLECTIVES)}")
        if self.determinism not in DETERMINISM:
            raise PlanError(f"{self.determinism!r} is no determinism; those are {', '.join(DETERMINISM)}")
        if not 2 <= self.ranks <= 1024:
            raise PlanError(f"{self.ranks} ranks, there must be 2 to 1024")
        if (self.collective in ROOTED) != (self.root is not None):
            raise PlanError(f"{self.collective} needs a root" if self.root is None else f"{self.collective} has no root")
        if not self.name or set(self.name) & set(" \t\n#"):
            raise PlanError(f"name {self.name!r}: a name is one word without #")
        if not self.lanes:
            self.lanes = [[] for _ in range(self.ranks)]

    def lane(self, rank: int, link_lane: int = 0) -> Lane:
        """A new lane of `rank`, which uses links on their lane `link_lane`."""
        if not 0 <= rank < self.ranks:
            raise PlanError(f"rank {rank} is not one of the {self.ranks}")
        lane = Lane(rank, link_lane, self.ranks)
        self.lanes[rank].append(lane)
        return lane
