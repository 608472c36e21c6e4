# SPDX-License-Identifier: Apache-2.0
"""Plans that the tests share: of every collective the plainest one, in which every rank talks to every other."""
from starling_plans import Lane, Operand, Plan, inbox, outbox, raw, recv, send


def put(lane: Lane, peer: int, block: Operand, contribution: bool) -> None:
    """One chunk on its way; what a reduction will take goes through a reduction first, so that it is scaled."""
    lane.reserve(peer, of=block)
    if contribution:
        lane.reduce(outbox[peer], a=raw(block))
    else:
        lane.copy(outbox[peer], source=block)
    lane.put(peer, of=block)


def reduce_at(plan: Plan, target: int, lane: Lane, own: Operand, result: Operand) -> None:
    """The sum of all ranks' shares, in the order of ranks from the target on."""
    for distance in range(1, plan.ranks):
        peer = (target + distance) % plan.ranks
        lane.wait(peer, of=own)
        lane.reduce(result, a=raw(own) if distance == 1 else result, b=inbox[peer], final=distance == plan.ranks - 1, of=own)
        lane.release(peer, of=own)


def direct(collective: str, ranks: int) -> Plan:
    """The plan of a collective in one exchange; an all-reduce takes two, through rank 0."""
    root = {"broadcast": 0, "reduce": 0, "gather": 0, "scatter": 0}.get(collective)
    plan = Plan("direct-" + collective, collective, ranks, root=root, determinism="rank")
    for rank in range(ranks):
        lane = plan.lane(rank)
        others = [(rank + distance) % ranks for distance in range(1, ranks)]
        if collective in ("all_reduce", "reduce"):
            if rank != 0:
                put(lane, 0, send[0], contribution=True)
            else:
                reduce_at(plan, 0, lane, send[0], recv[0])
        elif collective == "reduce_scatter":
            for peer in others:
                put(lane, peer, send[peer], contribution=True)
            reduce_at(plan, rank, lane, send[rank], recv[0])
        if collective in ("all_reduce", "broadcast"):
            _spread(lane, others, rank, recv[0] if collective == "all_reduce" else send[0])
        elif collective in ("all_gather", "all_to_all", "gather", "scatter"):
            _move(collective, lane, others, rank)
    return plan


def _spread(lane: Lane, others: list[int], rank: int, block: Operand) -> None:
    """Rank 0 gives its block to everybody."""
    if rank == 0:
        for peer in others:
            put(lane, peer, block, contribution=False)
        if block.buffer == "send":
            lane.copy(recv[0], source=block)
        return
    lane.wait(0, of=recv[0])
    lane.copy(recv[0], source=inbox[0])
    lane.release(0, of=recv[0])


def _move(collective: str, lane: Lane, others: list[int], rank: int) -> None:
    """Every rank that gives puts a block for every rank that takes."""
    gives = rank == 0 if collective == "scatter" else True
    takes = rank == 0 if collective == "gather" else True
    def mine(peer: int) -> Operand:
        return send[peer] if collective in ("all_to_all", "scatter") else send[0]
    def theirs(peer: int) -> Operand:
        return recv[0] if collective == "scatter" else recv[peer]
    for peer in others:
        if gives and (collective != "gather" or peer == 0):
            put(lane, peer, mine(peer), contribution=False)
    if gives and takes:
        lane.copy(theirs(rank), source=mine(rank))
    for peer in others:
        if takes and (collective != "scatter" or peer == 0):
            lane.wait(peer, of=theirs(peer))
            lane.copy(theirs(peer), source=inbox[peer])
            lane.release(peer, of=theirs(peer))
