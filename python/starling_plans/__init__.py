# SPDX-License-Identifier: Apache-2.0
"""Collectives as plans, without a compiler: build, print, draw, verify and write what algo-planfile runs.

    from starling_plans import Plan, inbox, outbox, raw, recv, send, save

    plan = Plan("pair", collective="all_reduce", ranks=2, determinism="rank")
    for rank in range(plan.ranks):
        peer, lane = 1 - rank, plan.lane(rank)
        lane.reserve(peer, of=send[0])
        lane.reduce(outbox[peer], a=raw(send[0]))
        lane.put(peer, of=send[0])
        lane.wait(peer, of=send[0])
        mine, other = raw(send[0]), inbox[peer]
        lane.reduce(recv[0], a=mine if rank == 0 else other, b=other if rank == 0 else mine, final=True)
        lane.release(peer, of=send[0])
    save(plan, "pair.plan")

docs/plan-file.md says what the steps do, docs/plans-tutorial.md goes from an idea to a measured table. Nothing but the
standard library is used.
"""
from .command import StarlingError, verify
from .draw import to_svg
from .plan import COLLECTIVES, DETERMINISM, Lane, Operand, Plan, PlanError, Raw, inbox, outbox, raw, recv, scratch, send
from .text import load, parse, save, to_text
from .trace import Event, trace

__all__ = ["COLLECTIVES", "DETERMINISM", "Event", "Lane", "Operand", "Plan", "PlanError", "Raw", "StarlingError", "inbox",
           "load", "outbox", "parse", "raw", "recv", "save", "scratch", "send", "to_svg", "to_text", "trace", "verify"]
