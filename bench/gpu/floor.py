#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast any library could be on a machine, by what bench_floor measured there, beside how fast ours is."""
import json

from record import PEER, Failure, geometric_mean, number_text

FIELDS = ("gpu", "gpus", "launch_us", "dependent_launch_us", "operation_us", "wire_gb_per_s")


def read(path, record):
    """What bench_floor wrote, of a machine like the record's."""
    with open(path, encoding="utf-8") as file:
        try:
            figures = json.load(file)
            missing = [name for name in FIELDS if name not in figures]
        except (ValueError, TypeError) as error:
            raise Failure(f"{path}: not what bench_floor writes: {error}") from error
    if missing:
        raise Failure(f"{path}: not what bench_floor writes: it lacks {', '.join(missing)}")
    machine, wanted = ((fields["gpus"], fields["gpu"]) for fields in (figures, record.conditions))
    if machine != wanted:
        raise Failure(f"{path}: of {machine[0]} x {machine[1]}, but the record is of {wanted[0]} x {wanted[1]}; run "
                      "bench_floor on that machine")
    return figures


def wire_bytes(point, gpus):
    """What a link sees at least, as nccl-tests counts bus bandwidth; sends count once."""
    share = (gpus - 1) / gpus
    return {"all_reduce": 2 * share, "broadcast": 1, "reduce": 1, "sendrecv": 1}.get(point.collective, share) * point.bytes


def launch_us(figures):
    return min(figures["launch_us"], figures["dependent_launch_us"])


def least_us(point, figures):
    """What it takes all GPUs to tell each other in a kernel, and the bytes on the wire; called one by one, no less than a
    launch takes the CPU."""
    us = figures["operation_us"] + wire_bytes(point, figures["gpus"]) / figures["wire_gb_per_s"] / 1e3
    return us if point.issue == "graph" else max(us, launch_us(figures))


def weigh(record, figures):
    """On plain buffers; as lines."""
    points = [point for point in record.free() if point.memory == "plain" and point.ratio is not None]
    if not points:
        yield "\nno point of two libraries on plain buffers: nothing to hold against the floor"
        return
    yield (f"\nfloor, by bench_floor: an operation {number_text(figures['operation_us'])} µs, a launch "
           f"{number_text(launch_us(figures))}, the wire {number_text(figures['wire_gb_per_s'])} GB/s; times as fast as the "
           "peer on plain buffers")
    for name in (*dict.fromkeys(point.issue for point in points), "all"):
        named = [point for point in points if name in (point.issue, "all")]
        could = geometric_mean([point.median(PEER) / least_us(point, figures) for point in named])
        does = geometric_mean([point.ratio for point in named])
        yield f"  {name:<28} {could:6.2f} at the floor, ours {does:.2f}, {100 * does / could:.0f} %  ({len(named)} points)"
