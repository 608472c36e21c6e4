#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What real work with two libraries comes to, from the record that real_work.py leaves:

    python3 bench/gpu/real_work_report.py FILE

Losses are marked as gpu-bench marks them. Libraries must agree on what was computed, within the tolerances below: they add in
different orders, and the GPU's own kernels need not give the same bits twice. Only the standard library. Exit code: 0 whoever
won, 1 no such record, or libraries that computed different things; 2 bad usage.
"""
import argparse
import itertools
import json
import math
import sys

from record import LOSS, NOISY, OURS, PEER, Failure, Rounds, geometric_mean, number_text, size_text
from report import version_text

MARK, REVISION = "starling_real_work", 1
NAMES = ("ours", "peer")
TARGET = 2.5              # all-reduce in a graph of PyTorch's: times as fast as the peer
DECODE_TOLERANCE = 0.05   # length of the difference over length of the vector; 80 layers round to bfloat16 each
LOSS_TOLERANCE = 0.01     # relative, of each step's mean loss


class Case(Rounds):
    """One piece of work, with communication or without."""

    def __init__(self, fields):
        super().__init__(fields["us"])
        self.part, self.issue, self.bytes = fields["part"], fields.get("issue"), fields.get("bytes")
        self.memory = fields["memory"]
        self.communicates = fields.get("communicates", True)
        self.left = fields.get("left")  # of each library, of each rank

    @property
    def is_lost(self):
        return self.communicates and super().is_lost

    def __str__(self):
        if self.part == "all_reduce":
            return f"all_reduce of {size_text(self.bytes)}, {self.issue}, {self.memory} buffers"
        return f"{self.part} step{'' if self.communicates else ' without communication'}, {self.memory} buffers"


class Record:
    """Everything of one run."""

    def __init__(self, document):
        self.conditions, self.libraries = document["conditions"], document["libraries"]
        self.cases = [Case(fields) for fields in document["cases"]]

    @property
    def memories(self):
        return list(dict.fromkeys(case.memory for case in self.cases))

    def find(self, part, memory, communicates=True):
        """The case of a part that has one of each kind; None: not measured."""
        return next((case for case in self.cases
                     if (case.part, case.memory, case.communicates) == (part, memory, communicates)), None)

    @property
    def is_right(self):
        return not list(disagreements(self))


def read(path):
    """The record in a file. Raises Failure."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        if not isinstance(document, dict) or document.get(MARK) != REVISION:
            raise Failure(f"{path}: no record of real work: {MARK} is not {REVISION}")
        return Record(document)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{path}: no whole record of real work: {error!r}") from error


def head(record):
    conditions = record.conditions
    yield (f"{conditions['gpus']} x {conditions['gpu']}, PyTorch {conditions['torch']}, a process a GPU; {conditions['rounds']} "
           "rounds in turns, the slowest rank of each")
    for name, library in zip(NAMES, record.libraries):
        yield f"  {name}: {library['path']}, NCCL's API {version_text(library['version'])}"
    for name, value in conditions["environment"].items():
        yield f"  {name}={value}"


def header(title):
    return f"{title:>30}" + "".join(f" {name:>28}" for name in NAMES) + f" {'x':>7}"


def row(title, case):
    cells = ""
    for us in (case.us[OURS], case.us[PEER]):
        middle = Rounds([us]).median(OURS)
        cells += f" {number_text(middle):>9} {f'[{number_text(min(us))}..{number_text(max(us))}]':>18}"
    marks = (" LOSS" if case.is_lost else "") + (" NOISY" if case.is_noisy else "")
    return f"{title:>30}{cells} {case.ratio:>7.2f}{marks}"


def all_reduces(record):
    for memory, issue in itertools.product(record.memories, ("graph", "eager")):
        cases = [case for case in record.cases if (case.part, case.memory, case.issue) == ("all_reduce", memory, issue)]
        if not cases:
            continue
        how = "captured into a CUDA graph" if issue == "graph" else "called one by one"
        yield (f"\nall-reduces of bfloat16 {how}, in place: each takes what the one before left; {memory} buffers; µs, median "
               "[min..max]")
        yield header("bytes")
        yield from (row(str(case.bytes), case) for case in cases)
        reached = sum(case.ratio >= TARGET for case in cases)
        aim = f"; target {TARGET}, reached at {reached} of {len(cases)} sizes" if issue == "graph" else ""
        yield f"{'geometric mean':>30} {'':57} {geometric_mean([case.ratio for case in cases]):>7.2f}{aim}"


def share_of_communication(whole, bare):
    """Of each library, the part of the time that is gone without communication."""
    return [1 - bare.median(library) / whole.median(library) for library in (OURS, PEER)]


def plain_row(title, texts):
    return f"{title:>30}" + "".join(f" {text:>9} {'':18}" for text in texts)


def step(record, part, memory, title, tokens):
    """The table of one kind of step, which makes so many tokens."""
    whole, bare = record.find(part, memory), record.find(part, memory, communicates=False)
    yield f"\n{title}; {memory} buffers; µs, median [min..max]"
    yield header("")
    yield row("a step", whole)
    if bare is not None:
        yield row("without communication", bare)
        yield plain_row("communication's share", [f"{share:.1%}" for share in share_of_communication(whole, bare)])
    yield plain_row("tokens/s", [f"{tokens / whole.median(library) * 1e6:.0f}" for library in (OURS, PEER)])


def decode(record):
    shape = record.libraries[OURS]["decode"]
    layers, sequences, width = shape["layers"], shape["sequences"], shape["width"]
    rows = width // record.conditions["gpus"]
    title = (f"decoding, one CUDA graph: {layers} layers, each {sequences} x {rows} by {rows} x {width} in bfloat16, then the "
             f"all-reduce of {size_text(sequences * width * 2)}")

    for memory in record.memories:
        if whole := record.find("decode", memory):
            yield from step(record, "decode", memory, title, sequences)
            yield plain_row("µs a layer", [number_text(whole.median(library) / layers) for library in (OURS, PEER)])
            yield f"{'results differ by':>30} {decode_difference(whole):.1e} (tolerance {DECODE_TOLERANCE})"


def train(record):
    shape = record.libraries[OURS]["train"]
    title = (f"training, DistributedDataParallel: a transformer of {shape['parameters'] / 1e6:.0f} million parameters, "
             f"{shape['tokens']} tokens a GPU and step, gradients of fp32 in overlapped buckets")

    if whole := record.find("train", "plain"):
        yield from step(record, "train", "plain", title, shape["tokens"] * record.conditions["gpus"])
        ours, peer = (mean_losses(whole, library) for library in (OURS, PEER))
        yield plain_row("mean loss, first step", [f"{ours[0]:.4f}", f"{peer[0]:.4f}"])
        yield plain_row(f"mean loss, step {len(ours)}", [f"{ours[-1]:.4f}", f"{peer[-1]:.4f}"])
        yield f"{'losses differ by up to':>30} {loss_difference(whole):.1e} (tolerance {LOSS_TOLERANCE})"


def best(record):
    """Ours on plain buffers, that need nothing of the program, against the better of the peer's plain and symmetric ones."""
    medians = {(case.part, case.issue, case.bytes, case.memory): case.median(PEER) for case in record.cases if case.communicates}
    ratios = {}
    for case in record.cases:
        windows = medians.get((case.part, case.issue, case.bytes, "symmetric"))
        if case.communicates and case.memory == "plain" and windows is not None:
            name = f"{case.part}, {case.issue}" if case.issue else f"{case.part} step"
            ratios.setdefault(name, []).append(min(case.median(PEER), windows) / case.median(OURS))
    if ratios:
        yield "\nours on plain buffers against the peer's best, plain or symmetric: times as fast, geometric mean"
    for name, found in ratios.items():
        yield f"{name:>30} {geometric_mean(found):6.2f}  ({len(found)} points, {sum(ratio < LOSS for ratio in found)} lost)"


def decode_difference(case):
    """Between the libraries, relative; what a rank has, all ranks of a library have, else it is nothing to compare."""
    ours, peer = case.left[OURS][0], case.left[PEER][0]
    return math.dist(ours, peer) / math.hypot(*peer)


def mean_losses(case, library):
    return [sum(losses) / len(losses) for losses in zip(*case.left[library])]


def loss_difference(case):
    return max(abs(a - b) / abs(b) for a, b in zip(mean_losses(case, OURS), mean_losses(case, PEER)))


def disagreements(record):
    """What is wrong, in words."""
    for case in (found for memory in record.memories if (found := record.find("decode", memory))):
        for name, ranks in zip(NAMES, case.left):
            if any(rank != ranks[0] for rank in ranks):
                yield f"decoding with {name}, {case.memory} buffers: ranks have different results"
        if not decode_difference(case) <= DECODE_TOLERANCE:  # a NaN is no small difference
            yield f"decoding, {case.memory} buffers: results differ by {decode_difference(case):.1e}"
    case = record.find("train", "plain")
    if case is not None:
        for library, name in enumerate(NAMES):
            losses = mean_losses(case, library)
            if not losses[-1] < losses[0]:
                yield f"training with {name}: the loss does not fall: {losses[0]:.4f}, then {losses[-1]:.4f}"
        if not loss_difference(case) <= LOSS_TOLERANCE:
            yield f"training: losses differ by {loss_difference(case):.1e}"


def listed(record):
    """What to look at, by name."""
    compared = [case for case in record.cases if case.communicates]
    lost = sorted((case for case in compared if case.is_lost), key=lambda case: case.ratio)
    yield f"\nlost (below {LOSS} times as fast): {len(lost)} of {len(compared)}"
    yield from (f"  {case}: {case.ratio:.2f}, {number_text(case.median(OURS))} against {number_text(case.median(PEER))} µs"
                for case in lost)
    if noisy := [case for case in record.cases if case.is_noisy]:
        yield f"\nNOISY (rounds differ by more than {NOISY} times)"
        yield from (f"  {case}" for case in noisy)
    if wrong := list(disagreements(record)):
        yield "\nWRONG"
        yield from (f"  {words}" for words in wrong)


def text(record):
    """Everything, as lines."""
    for part in (head, all_reduces, decode, train, best, listed):
        yield from part(record)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", help="what real_work.py wrote")
    record = read(parser.parse_args().file)
    print("\n".join(text(record)))
    return 0 if record.is_right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"real work: {failure}", file=sys.stderr)
        sys.exit(1)
