#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every collective of torch.distributed on GPUs against what a CPU computes, and a small model trained.

    torch_collectives.py [--world N] [--steps S]

One process a GPU. Prints "losses …" of the training, which must not depend on the NCCL library underneath, then "right".
Exit code 0: all right; 1: something is wrong, said on standard error; 77: no torch or too few GPUs.
"""
import argparse
import os
import random
import sys
import time

SKIPPED = 77
try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as multiprocessing
except ImportError:
    print("no torch")
    sys.exit(SKIPPED)

COUNTS = (1, 7, 1024, 100003, 1 << 21)


def value(rank, count, dtype):
    """What `rank` contributes: small whole numbers, exact in every type."""
    return ((torch.arange(count) * 5 + rank * 3) % 4 + 1).to(dtype)


def expect(name, got, wanted, tolerance=0.0):
    got, wanted = got.cpu().double(), wanted.double()
    if got.shape != wanted.shape or (got - wanted).abs().max().item() > tolerance * wanted.abs().max().item():
        raise AssertionError(f"rank {dist.get_rank()}: {name} is wrong: {got.flatten()[:8]} instead of {wanted.flatten()[:8]}")


def reductions(world, rank):
    ops = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN, "avg": dist.ReduceOp.AVG}
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64, torch.uint8):
        for count in COUNTS:
            every = torch.stack([value(r, count, dtype) for r in range(world)]).double()
            for name, op in ops.items():
                if name == "avg" and not dtype.is_floating_point:
                    continue
                wanted = {"sum": every.sum(0), "max": every.amax(0), "min": every.amin(0), "avg": every.mean(0)}[name]
                tensor = value(rank, count, dtype).cuda()
                dist.all_reduce(tensor, op=op)
                expect(f"all_reduce {name} {dtype} {count}", tensor, wanted, 0.01 if name == "avg" else 0)
            tensor = value(rank, count, dtype).cuda()
            dist.reduce(tensor, dst=world - 1)
            if rank == world - 1:
                expect(f"reduce {dtype} {count}", tensor, every.sum(0))


def moves(world, rank):
    for count in COUNTS:
        every = [value(r, count, torch.float32) for r in range(world)]
        mine = every[rank].cuda()
        tensor = mine.clone()
        dist.broadcast(tensor, src=world - 1)
        expect(f"broadcast {count}", tensor, every[world - 1])
        gathered = torch.empty(world * count, device="cuda")
        dist.all_gather_into_tensor(gathered, mine)
        expect(f"all_gather {count}", gathered, torch.cat(every))
        pieces = [torch.empty(count, device="cuda") for _ in range(world)]
        dist.all_gather(pieces, mine)
        expect(f"all_gather list {count}", torch.cat(pieces), torch.cat(every))
        scattered = torch.empty(count, device="cuda")
        dist.reduce_scatter_tensor(scattered, torch.cat([mine * (r + 1) for r in range(world)]))
        expect(f"reduce_scatter {count}", scattered, torch.stack(every).sum(0) * (rank + 1))
        swapped = torch.empty(world * count, device="cuda")
        dist.all_to_all_single(swapped, torch.cat([mine + r for r in range(world)]))
        expect(f"all_to_all {count}", swapped, torch.cat([every[r] + rank for r in range(world)]))
        root = [every[rank] + r for r in range(world)]
        got = torch.empty(count, device="cuda")
        dist.scatter(got, [t.cuda() for t in root] if rank == 0 else None, src=0)
        expect(f"scatter {count}", got, every[0] + rank)
        gathered = [torch.empty(count, device="cuda") for _ in range(world)] if rank == 0 else None
        dist.gather(mine, gathered, dst=0)
        if rank == 0:
            expect(f"gather {count}", torch.cat(gathered), torch.cat(every))
    dist.barrier()


def uneven(world, rank):
    """All-to-all with other counts for each pair, and messages in one coalesced batch."""
    counts = [[(r * 7 + peer * 13) % 5 * 1000 for peer in range(world)] for r in range(world)]
    send = torch.cat([value(rank * world + peer, counts[rank][peer], torch.float32) for peer in range(world)]).cuda()
    receives = [counts[peer][rank] for peer in range(world)]
    got = torch.empty(sum(receives), device="cuda")
    dist.all_to_all_single(got, send, receives, counts[rank])
    expect("uneven all_to_all", got, torch.cat([value(peer * world + rank, counts[peer][rank], torch.float32) for peer in range(world)]))
    after, before = (rank + 1) % world, (rank - 1) % world
    got = torch.empty(50000, device="cuda")
    ops = [dist.P2POp(dist.isend, value(rank, 50000, torch.float32).cuda(), after), dist.P2POp(dist.irecv, got, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    expect("batched messages", got, value(before, 50000, torch.float32))


def groups(world, rank):
    """Two groups that overlap, used at once."""
    everyone = dist.new_group(list(range(world)))
    alone = [dist.new_group([r]) for r in range(world)][rank]
    first, second, third = (value(rank, 4096, torch.float32).cuda() for _ in range(3))
    works = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, group=everyone, async_op=True),
             dist.all_reduce(third, group=alone, async_op=True)]
    for work in works:
        work.wait()
    wanted = sum(value(r, 4096, torch.float32) for r in range(world))
    expect("all_reduce of the default group", first, wanted)
    expect("all_reduce of a second group", second, wanted)
    expect("all_reduce of one rank", third, value(rank, 4096, torch.float32))


def graphs(world, rank):
    """Captured, replayed, with eager calls between that differ from rank to rank in time."""
    tensor = torch.zeros(10000, device="cuda")
    dist.all_reduce(tensor)  # connects
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            dist.all_reduce(tensor)
            tensor /= world
    for turn in range(20):
        tensor.copy_(value(rank + turn, 10000, torch.float32))
        graph.replay()
        if turn % 5 == 0:
            eager = value(rank, 3000, torch.float32).cuda()
            dist.all_reduce(eager)
            expect("eager between replays", eager, sum(value(r, 3000, torch.float32) for r in range(world)))
        torch.cuda.synchronize()
        wanted = sum(value(r + turn, 10000, torch.float32) for r in range(world)) / world
        expect(f"replay {turn}", tensor, wanted, 1e-5)
    del graph


def await_free(share):
    """Until so much of the GPU can be had. What was freed is there again once peers have unmapped it; at once there is as
    much again as was freed, and no more is promised."""
    end = time.monotonic() + 5
    while True:
        free, total = torch.cuda.mem_get_info()
        if free >= share * total + (64 << 20):
            return
        if time.monotonic() > end:
            raise AssertionError(f"{free >> 20} MiB are free 5 s after all was freed")
        time.sleep(0.005)


def memory(world, rank):
    """Buffers that come and go: addresses are used again by other allocations, and what is freed can be had again."""
    draw = random.Random(7)  # the same on all ranks
    for turn in range(60):
        count = draw.choice((1 << 19, 1 << 21, 3 << 20, (1 << 23) + 5))
        tensor = (value(rank, count, torch.float32) + turn % 3).cuda()
        dist.all_reduce(tensor)
        wanted = sum(value(r, 64, torch.float32) + turn % 3 for r in range(world))
        expect(f"all_reduce of {count} in turn {turn}", tensor[:64], wanted)
        del tensor
        if draw.random() < 0.3:
            torch.cuda.empty_cache()
    torch.cuda.empty_cache()
    for share, parts in ((0.5, 8), (0.9, 1)):
        await_free(share)
        for _ in range(2):  # the second time at once, whatever peers still have mapped of the first
            count = int(torch.cuda.mem_get_info()[1] * share / parts) // 4
            tensors = [torch.ones(count, dtype=torch.float32, device="cuda") for _ in range(parts)]
            for tensor in tensors:
                dist.all_reduce(tensor)
                expect(f"all_reduce of {count}", tensor[-64:], torch.full((64,), float(world)))
            del tensor, tensors
            torch.cuda.empty_cache()


def train(world, rank, steps):
    """A small transformer, data-parallel; the mean loss of each step."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Embedding(64, 96),
                                torch.nn.TransformerEncoderLayer(96, 4, 192, dropout=0.0, batch_first=True),
                                torch.nn.Linear(96, 64)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()], bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    generator = torch.Generator().manual_seed(100 + rank)
    losses = []
    for _ in range(steps):
        tokens = torch.randint(0, 64, (8, 32), generator=generator).cuda()
        loss = torch.nn.functional.cross_entropy(model(tokens).transpose(1, 2), (tokens + 1) % 64)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
    if losses[-1] >= losses[0]:
        raise AssertionError(f"rank {rank}: the loss does not fall: {losses}")
    return losses


def run_rank(rank, world, steps, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    torch.set_num_threads(max(len(os.sched_getaffinity(0)) // world, 1))  # what is wanted is computed on the CPU
    torch.use_deterministic_algorithms(True, warn_only=True)
    first = torch.ones(1, device="cuda")
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    begin = time.monotonic()
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    dist.all_reduce(first)
    torch.cuda.synchronize()
    print(f"rank {rank}: first all-reduce after {time.monotonic() - begin:.2f} s, "
          f"{(free - torch.cuda.mem_get_info()[0]) >> 20} MiB of the GPU taken", flush=True)
    for part in (reductions, moves, uneven, groups, graphs, memory):
        part(world, rank)
        torch.cuda.synchronize()
        if rank == 0:
            print("right:", part.__name__, flush=True)
    losses = train(world, rank, steps)
    if rank == 0:
        print("losses", " ".join(f"{loss:.6f}" for loss in losses), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=int, default=torch.cuda.device_count())
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--port", type=int, default=29500 + os.getpid() % 1000)
    arguments = parser.parse_args()
    if arguments.world < 2 or arguments.world > torch.cuda.device_count():
        print(f"{torch.cuda.device_count()} GPUs are too few for {arguments.world} ranks")
        return SKIPPED
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    multiprocessing.spawn(run_rank, (arguments.world, arguments.steps, arguments.port), arguments.world)
    print("right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
