# SPDX-License-Identifier: Apache-2.0
"""One round of a plan, step by step: when each step happens if every step takes one tick, and what waits for what."""
from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from .plan import Lane, Plan, PlanError, Step


@dataclass(frozen=True)
class Event:
    """A step that ran. `number` is its number within its lane, as messages of the kernel name it."""

    rank: int
    lane: int
    number: int
    step: Step
    tick: int
    sent: int | None = None  # of a wait: the tick of the put that it waited for


class _Cursor:
    """Where a lane is: its steps unrolled, each with its number, and the tick at which it may go on."""

    def __init__(self, index: int, lane: Lane) -> None:
        self.index, self.lane = index, lane
        self.tick = 0
        self.steps: deque[tuple[int, Step]] = deque()
        number = 0
        for step in lane.steps:
            if step.kind != "repeat":
                self.steps.append((number, step))
            for _ in range(step.count):
                self.steps.extend((number + 1 + at, inner) for at, inner in enumerate(step.body))
            number += 1 + len(step.body)

    def place(self) -> str:
        number, step = self.steps[0]
        return f"rank {self.lane.rank} lane {self.index} step {number}: {step}"


def trace(plan: Plan) -> list[Event]:
    """The events of one round, in the order of ticks. PlanError names every step that waits for ever, and every chunk
    that nobody waits for. Links hold as many chunks as the plan declares credits."""
    cursors = [_Cursor(index, lane) for lanes in plan.lanes for index, lane in enumerate(lanes)]
    chunks: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)  # (from, to, link lane): ticks of puts
    room: dict[tuple[int, int, int], deque[int]] = defaultdict(lambda: deque([0] * plan.credits))  # ticks of releases
    events: list[Event] = []
    moved = True
    while moved:
        moved = False
        for cursor in cursors:
            while cursor.steps and _run(cursor, chunks, room, events):
                moved = True
    stuck = [cursor.place() for cursor in cursors if cursor.steps]
    if stuck:
        raise PlanError("these steps wait for ever:\n  " + "\n  ".join(stuck))
    left = [f"{len(ticks)} from rank {source} to rank {target} on lane {lane}"
            for (source, target, lane), ticks in chunks.items() if ticks]
    if left:
        raise PlanError("chunks that nobody waits for: " + "; ".join(left))
    return sorted(events, key=lambda event: (event.tick, event.rank, event.lane))


def _run(cursor: _Cursor, chunks: dict[tuple[int, int, int], deque[int]],
         room: dict[tuple[int, int, int], deque[int]], events: list[Event]) -> bool:
    """Runs the lane's next step when it can."""
    number, step = cursor.steps[0]
    rank, link_lane = cursor.lane.rank, cursor.lane.link_lane
    outwards, inwards = (rank, step.peer, link_lane), (step.peer, rank, link_lane)
    sent = None
    tick = cursor.tick
    if step.kind == "wait":
        if not chunks[inwards]:
            return False
        sent = chunks[inwards].popleft()
        tick = max(tick, sent + 1)
    elif step.kind == "reserve" or (step.kind == "put" and step.a is not None):
        if not room[outwards]:
            return False
        tick = max(tick, room[outwards].popleft())
    if step.kind == "put":
        chunks[outwards].append(tick)
    if step.kind == "release":
        room[inwards].append(tick + 1)
    cursor.steps.popleft()
    cursor.tick = tick + 1
    events.append(Event(rank, cursor.index, number, step, tick, sent))
    return True
