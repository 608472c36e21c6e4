#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One GPU's part of real_work.py, on PyTorch and whatever NCCL library this process has loaded.

    real_work_rank.py --probe                           prints what PyTorch finds here, as a line of JSON
    real_work_rank.py --rank R --world N --meet FILE    takes orders, a line of JSON each, from the socket that is its
                                                        standard input, and answers there; ends when that closes

It touches the GPU only between an order and its answer, so that another library's processes can use the same GPU meanwhile.
FILE must not exist yet; the ranks meet by it.
"""
import argparse
import contextlib
import ctypes
import datetime
import functools
import itertools
import json
import math
import os
import socket
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
except ImportError as error:
    print(json.dumps({"missing": f"no PyTorch for {sys.executable}: {error}"}))
    sys.exit(0)

PATIENCE_S = 60  # for an operation whose peer does not come
BATCHES = 3      # of a measurement; what holds up a processor for a while spoils one of them
DEVICE = "cuda"


def libraries():
    """The file that calls of NCCL go to. What was preloaded comes first, though PyTorch loads its own as well; where nothing
    was, all files that it may be."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mapped = [line.split(maxsplit=5) for line in maps if "/" in line]
    try:
        address = ctypes.cast(ctypes.CDLL(None).ncclGetVersion, ctypes.c_void_p).value
    except AttributeError:  # PyTorch keeps its own to itself
        return sorted({words[5].strip() for words in mapped if "/libnccl.so" in words[5]})
    ranges = ((*(int(end, 16) for end in words[0].split("-")), words[5].strip()) for words in mapped)
    return [path for begin, end, path in ranges if begin <= address < end]


def version(library):
    """What the library says of itself; PyTorch answers with what it was built against."""
    number = ctypes.c_int()
    ctypes.CDLL(library).ncclGetVersion(ctypes.byref(number))
    return number.value


def captured(work):
    """A graph of what `work` launches, after it has run once."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def timed(work, repeats):
    """µs of a call of `work`: the median of BATCHES of so many calls. All ranks start together, once it has run to warm up."""
    work()
    batches = []
    for _ in range(BATCHES):
        dist.all_reduce(torch.zeros(1, device=DEVICE))
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            work()
        torch.cuda.synchronize()
        batches.append((time.perf_counter() - begin) / repeats * 1e6)
    return statistics.median(batches)


@functools.cache
def window():
    """1 MiB of numbers in a symmetric window of the library, and the pool that keeps it. Collective."""
    library = dist.group.WORLD._get_backend(torch.device(DEVICE))
    pool = torch.cuda.MemPool(library.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        whole = torch.zeros(1 << 19, dtype=torch.bfloat16, device=DEVICE)
    library.register_mem_pool(pool, symm=True)
    return whole, pool


def numbers(memory, *shape):
    """Tensors of one shape: any number of plain ones, or as many symmetric ones as the window holds."""
    while memory == "plain":
        yield torch.empty(shape, dtype=torch.bfloat16, device=DEVICE)
    yield from (piece.view(shape) for piece in window()[0].split(math.prod(shape)))


class AllReduce:
    """All-reduces in place, one after the other: each takes what the one before has left."""
    OPERATIONS, REPEATS = 100, 5

    def __init__(self, issue, memory, size):
        self.tensor = next(numbers(memory, size // 2)).fill_(dist.get_rank() + 1)
        dist.all_reduce(self.tensor)
        wanted = dist.get_world_size() * (dist.get_world_size() + 1) // 2
        if not bool((self.tensor == wanted).all()):
            raise RuntimeError(f"all-reduce of {size} bytes left {self.tensor[:4].tolist()} instead of {wanted}")
        self.tensor.zero_()  # sums of anything else grow beyond all numbers
        self.work = captured(self.run).replay if issue == "graph" else self.run

    def run(self):
        for _ in range(self.OPERATIONS):
            dist.all_reduce(self.tensor)

    def measure(self):
        return {"us": timed(self.work, self.REPEATS) / self.OPERATIONS}


class Decode:
    """What a language model spread over all GPUs does for the next token of each of a few sequences, as one graph: in every
    layer, the product with this GPU's rows of a weight, and the sum of the partial results of all GPUs."""
    LAYERS, SEQUENCES, WIDTH = 80, 4, 8192  # a layer sums SEQUENCES x WIDTH numbers of 2 bytes: 64 KiB
    REPEATS = 10

    def __init__(self, memory, reduces):
        self.reduces = reduces
        rows = self.WIDTH // dist.get_world_size()
        self.mine = slice(dist.get_rank() * rows, (dist.get_rank() + 1) * rows)
        shared = torch.Generator(DEVICE).manual_seed(7)
        own = torch.Generator(DEVICE).manual_seed(100 + dist.get_rank())
        kind = {"dtype": torch.bfloat16, "device": DEVICE}
        self.first = torch.randn(self.SEQUENCES, self.WIDTH, generator=shared, **kind)
        # So scaled, the numbers are as large after the last layer as before the first.
        scale = 1 / math.sqrt(self.WIDTH if reduces else rows)
        self.weights = [torch.randn(rows, self.WIDTH, generator=own, **kind).mul_(scale) for _ in range(self.LAYERS)]
        self.hidden = list(itertools.islice(numbers(memory, self.SEQUENCES, self.WIDTH), 2))
        self.graph = captured(self.step)

    def step(self):
        before = self.first
        for layer, weight in enumerate(self.weights):
            after = self.hidden[layer % 2]
            torch.mm(before[:, self.mine], weight, out=after)
            if self.reduces:
                dist.all_reduce(after)
            before = after

    def measure(self):
        us = timed(self.graph.replay, self.REPEATS)
        last = self.hidden[(self.LAYERS - 1) % 2]
        return {"us": us, **({"left": last.flatten()[:: self.WIDTH // 32].float().tolist()} if self.reduces else {})}


class Block(nn.Module):
    """A layer of a transformer: attention to what came before, then a perceptron."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_perceptron = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project_in, self.project_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden):
        batch, length, width = hidden.shape
        parts = self.project_in(self.before_attention(hidden)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.project_out(attended.transpose(1, 2).reshape(batch, length, width))
        return hidden + self.narrow(nn.functional.gelu(self.widen(self.before_perceptron(hidden))))


class Transformer(nn.Module):
    """Predicts the next token; 186 million parameters, in few wide layers, so that the processor is not what takes the time."""
    TOKENS, LENGTH, WIDTH, LAYERS, HEADS = 8192, 512, 2048, 3, 16

    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(self.TOKENS, self.WIDTH), nn.Embedding(self.LENGTH, self.WIDTH)
        self.blocks = nn.Sequential(*(Block(self.WIDTH, self.HEADS) for _ in range(self.LAYERS)))
        self.norm, self.head = nn.LayerNorm(self.WIDTH), nn.Linear(self.WIDTH, self.TOKENS, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position(places))))


class Training:
    """Data-parallel training in bfloat16 with fp32 weights; gradients are exchanged in buckets while others are computed.
    Without the exchange every rank trains by itself: the same work, but no communication."""
    SEQUENCES, SEEN = 8, 256  # tokens are drawn of SEEN different ones, so that the loss falls within few steps
    REPEATS = 4

    def __init__(self, exchanges):
        torch.manual_seed(7)
        model = Transformer().to(DEVICE)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
        self.model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if exchanges else model
        self.draw = torch.Generator(DEVICE).manual_seed(100 + dist.get_rank())
        self.exchanges, self.losses = exchanges, []
        for _ in range(3):  # buckets are laid out anew after the first step
            self.step()

    def step(self):
        size = (self.SEQUENCES, Transformer.LENGTH)
        tokens = torch.randint(0, self.SEEN, size, generator=self.draw, device=DEVICE)
        with torch.autocast(DEVICE, torch.bfloat16):
            logits = self.model(tokens)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), (tokens.flatten() + 1) % self.SEEN)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())

    def measure(self):
        us = timed(self.step, self.REPEATS)
        return {"us": us, **({"left": torch.stack(self.losses).tolist()} if self.exchanges else {})}


def prepare(case):
    """The piece of work that `case` names. Collective."""
    if case["part"] == "all_reduce":
        return AllReduce(case["issue"], case["memory"], case["bytes"])
    if case["part"] == "decode":
        return Decode(case["memory"], case["communicates"])
    if case["part"] == "train":
        return Training(case["communicates"])
    raise RuntimeError(f"no such work: {case}")


def introduction():
    """What is reported of these processes, and by what the report computes rates."""
    with torch.device("meta"):  # shapes alone
        parameters = sum(parameter.numel() for parameter in Transformer().parameters())
    files = libraries()
    return {"libraries": files, "version": version(files[0]) if files else 0,
            "decode": {"layers": Decode.LAYERS, "sequences": Decode.SEQUENCES, "width": Decode.WIDTH},
            "train": {"parameters": parameters, "tokens": Training.SEQUENCES * Transformer.LENGTH}}


def answer(channel, words):
    channel.sendall((json.dumps(words) + "\n").encode())


def serve(channel):
    """Answers orders until the other side closes the channel."""
    case = work = None
    for line in channel.makefile("r", encoding="utf-8"):
        order = json.loads(line)
        if "measure" not in order:
            answer(channel, introduction())
            continue
        if order["measure"] != case:
            work = None  # its memory goes before the next one's comes
            case, work = order["measure"], prepare(order["measure"])
        answer(channel, work.measure())


def keep_to_own_processors(rank, world):
    """Each rank has a part of the processors, the same one whichever library it serves, so that ranks are not moved about."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) >= world:
        os.sched_setaffinity(0, processors[rank * len(processors) // world:(rank + 1) * len(processors) // world])


def take_part(rank, world, meet):
    with socket.socket(fileno=os.dup(0)) as channel:
        try:
            torch.cuda.set_device(rank)
            keep_to_own_processors(rank, world)
            dist.init_process_group("nccl", init_method=f"file://{meet}", rank=rank, world_size=world,
                                    timeout=datetime.timedelta(seconds=PATIENCE_S), device_id=torch.device(DEVICE, rank))
            dist.all_reduce(torch.zeros(1, device=DEVICE))
            torch.cuda.synchronize()
            serve(channel)
        except Exception as error:  # whatever it is, the other side is to hear of it
            with contextlib.suppress(OSError):
                answer(channel, {"error": f"{type(error).__name__}: {error}"})
            raise
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe", action="store_true")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--world", type=int)
    parser.add_argument("--meet")
    arguments = parser.parse_args()
    if not arguments.probe:
        take_part(arguments.rank, arguments.world, arguments.meet)
        return
    gpus = torch.cuda.device_count()
    print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "gpus": gpus,
                      "gpu": torch.cuda.get_device_name(0) if gpus else ""}))


if __name__ == "__main__":
    main()
