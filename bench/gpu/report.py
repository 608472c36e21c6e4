#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a comparison on GPUs comes to, from its record alone: tables of every point, means, what was lost, how that stands
to NCCL's best and to its claims, as CSV, and as a plot. `./run gpu-bench` calls it; for records from elsewhere:

    python3 bench/gpu/report.py FILE... [--csv FILE] [--svg FILE] [--floor FILE]

Several files are slices of one grid, measured alike. --floor names what bench_floor wrote of the same machine: how fast any
library could be there is weighed, too. A point is lost (LOSS) when ours is less than 0.97 times as fast as the
peer; its rounds are NOISY when they differ by more than half; WRONG, when libraries left different results. Only the
standard library. Exit code: 0 whoever won, 1 a file that cannot be reported on, 2 bad usage.
"""
import argparse
import csv
import math
import sys

import floor
import plot
from record import LOSS, NOISY, OURS, PEER, Failure, geometric_mean, groups, merge, size_text, number_text

# NVIDIA's for NCCL 2.27, all-reduce: symmetric windows, times as fast as plain buffers.
CLAIMS = ((64, 9.0), (4 << 10, 7.6), (128 << 10, 5.6), (8 << 20, 3.3))
# How operations follow each other, always on one stream.
ISSUES = {"eager": "called one by one, each on the same buffers", "graph": "captured in a chain, each on the same buffers",
          "dependent": "called one by one, each on what the one before left"}


def version_text(version):
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def head(record):
    conditions = record.conditions
    driver = conditions["cuda_driver"]
    yield (f"{conditions['gpus']} x {conditions['gpu']}, driver of CUDA {driver // 1000}.{driver // 10 % 100}, "
           f"{conditions['processor']}; {conditions['datatype']}, {conditions['op']}, {conditions['rounds']} rounds"
           + (f", {conditions['more_elements']} elements more in every rank's part" if conditions["more_elements"] else ""))
    for name, path, library in zip(record.names(), record.paths, conditions["libraries"]):
        yield f"  {name}: {path}, NCCL's API {version_text(library['version'])}, {library['fingerprint']}"
    for name, value in conditions["environment"].items():
        yield f"  {name}={value}"


def cell(point, library):
    if not point.serves(library):
        return f"{'not served':>28}"
    spread = f"[{number_text(min(point.us[library]))}..{number_text(max(point.us[library]))}]"
    return f"{number_text(point.median(library)):>9} {spread:>18}"


def marks(point):
    found = ((point.is_lost, "LOSS"), (point.is_noisy, "NOISY"), (not point.right, "WRONG"))
    return "".join(f" {mark}" for is_so, mark in found if is_so)


def tables(record):
    for group in groups(record.free()):
        first = group[0]
        yield ""
        yield (f"{first.collective}, {first.issue} ({ISSUES.get(first.issue, '?')}), {first.memory} buffers: µs of the slowest "
               "GPU, median [min..max]; x = how many times faster ours is")
        yield f"{'bytes':>12}" + "".join(f" {name:>28}" for name in record.names()) + f" {'x':>7}"
        for point in group:
            ratio = f"{point.ratio:.2f}" if point.ratio is not None else "-"
            cells = "".join(f" {cell(point, library)}" for library in range(len(record.names())))
            yield f"{point.bytes:>12}{cells} {ratio:>7}{marks(point)}"


def mean_line(name, ratios):
    lost = sum(ratio < LOSS for ratio in ratios)
    return f"  {name:<28} {geometric_mean(ratios):6.2f}  ({len(ratios)} points, {lost} lost)"


def means(record):
    points = [point for point in record.free() if point.ratio is not None]
    if not points:
        yield "\nno point of two libraries: nothing to compare"
        return
    yield "\ngeometric mean of how many times faster ours is, on the same buffers"
    for name in ("collective", "issue", "memory"):
        for value in dict.fromkeys(getattr(point, name) for point in points):
            yield mean_line(value, [point.ratio for point in points if getattr(point, name) == value])
    yield mean_line("all", [point.ratio for point in points])


def times(record, library, memory):
    """Medians of a library on one kind of buffers, by what else makes a point."""
    return {(point.collective, point.issue, point.bytes): point.median(library)
            for point in record.free() if point.memory == memory and point.serves(library)}


def score(record):
    """Ours on plain buffers, that need no registration, against the peer's plain ones and the better of its plain and
    symmetric ones. A graph is compared with a graph, an eager call with an eager one."""
    ours, plain, symmetric = (times(record, library, memory) for library, memory in
                              ((OURS, "plain"), (PEER, "plain"), (PEER, "symmetric")))
    against = {"its default, plain buffers": {key: us for key, us in plain.items() if key in ours},
               "its best, plain or symmetric": {key: min(us, symmetric[key]) for key, us in plain.items()
                                                if key in ours and key in symmetric}}
    yield "\nscore: ours on plain buffers against the peer's"
    for name, theirs in against.items():
        if not theirs:
            yield f"  {name:<28} not measured"
            continue
        ratios = {key: us / ours[key] for key, us in theirs.items()}
        yield mean_line(name, ratios.values())
        worst = min(ratios, key=ratios.get)
        yield f"    worst: {worst[0]} of {size_text(worst[2])}, {worst[1]} ({ratios[worst]:.2f})"


def nearest(sizes, wanted):
    """The size that is measured nearest, within a factor of four; else None."""
    size = min(sizes, key=lambda size: abs(math.log(size / wanted)))
    return size if wanted / 4 <= size <= wanted * 4 else None


def claims(record):
    """All-reduce over plain buffers of the peer: what NCCL claims of its windows, what they reach here, what ours does."""
    yield "\nall-reduce, times as fast as the peer's on plain buffers, beside what NVIDIA claims for NCCL 2.27's windows"
    columns = (("peer, windows", PEER, "symmetric"), ("ours, plain", OURS, "plain"), ("ours, windows", OURS, "symmetric"))
    is_any = False
    for issue in ("eager", "graph"):
        base = {key[2]: us for key, us in times(record, PEER, "plain").items() if key[:2] == ("all_reduce", issue)}
        if not base:
            continue
        is_any = True
        yield f"  {issue:<9} {'claimed':>8}" + "".join(f" {name:>14}" for name, _, _ in columns)
        for wanted, claim in CLAIMS:
            size = nearest(base, wanted)
            row = ""
            for _, library, memory in columns:
                us = times(record, library, memory).get(("all_reduce", issue, size))
                row += f" {base[size] / us:>13.2f}x" if us else f" {'-':>14}"
            note = "" if size in (wanted, None) else f"  at {size_text(size)}, the nearest that was measured"
            yield f"  {size_text(wanted):>9} {claim:>7.1f}x{row}{note}"
    if not is_any:
        yield "  not measured: it takes all_reduce on plain buffers of both libraries"


def bus_bandwidth(point, library, gpus):
    """GB/s."""
    return floor.wire_bytes(point, gpus) / point.median(library) / 1e3


def budgets(record):
    """Bandwidth over how many blocks a kernel may have at most."""
    bounded = [point for point in record.points if point.ctas is not None]
    columns = sorted({point.ctas for point in bounded})
    for group in groups(bounded):
        first = group[0]
        yield ""
        yield (f"{first.collective}, {first.issue}, {first.memory} buffers: GB/s bus by blocks asked for (ncclConfig_t), "
               f"{' / '.join(record.names())}")
        yield f"{'bytes':>12}" + "".join(f" {count:>19}" for count in columns)
        for size in sorted({point.bytes for point in group}):
            row = {point.ctas: point for point in group if point.bytes == size}
            yield f"{size:>12}" + "".join(f" {budget_cell(row.get(count), record):>19}" for count in columns)


def budget_cell(point, record):
    if point is None:
        return "-"
    if not any(point.serves(library) for library in range(len(record.names()))):
        return "not served"
    return " / ".join(number_text(bus_bandwidth(point, library, record.gpus)) if point.serves(library) else "not served"
                      for library in range(len(record.names())))


def listed(record):
    """What to look at, by name."""
    lost = sorted((point for point in record.free() if point.is_lost), key=lambda point: point.ratio)
    compared = sum(point.ratio is not None for point in record.free())
    kinds = ((f"lost (below {LOSS} times as fast): {len(lost)} of {compared}", lost,
              lambda point: f"{point.ratio:.2f}, {number_text(point.median(OURS))} against "
                            f"{number_text(point.median(PEER))} µs"),
             (f"NOISY (rounds differ by more than {NOISY} times)", [p for p in record.points if p.is_noisy],
              lambda point: ", ".join(f"{name} {max(us) / min(us):.2f}"
                                      for name, us in zip(record.names(), point.us) if us)),
             ("WRONG (libraries left different results)", [p for p in record.points if not p.right], lambda point: "!"))
    for title, points, detail in kinds:
        if points or points is lost and compared:
            yield f"\n{title}"
        yield from (f"  {point}: {detail(point)}" for point in points)


def text(record):
    """Everything, as lines."""
    is_budgets_alone = record.points and not record.free()
    for part in (head, budgets, listed) if is_budgets_alone else (head, tables, means, score, claims, budgets, listed):
        yield from part(record)


def write_csv(record, path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["collective", "issue", "memory", "bytes", "ctas",
                       *(f"us_{i + 1}" for i in range(len(record.names()))), "right"])
        for point in record.points:
            us = [point.median(library) if point.serves(library) else "" for library in range(len(record.names()))]
            rows.writerow([point.collective, point.issue, point.memory, point.bytes,
                           "" if point.ctas is None else point.ctas, *us, int(point.right)])


def report(files, csv_path=None, svg_path=None, floor_path=None):
    record = merge(files)
    lowest = floor.read(floor_path, record) if floor_path else None
    for line in text(record):
        print(line)
    if lowest:
        print("\n".join(floor.weigh(record, lowest)))
    if csv_path:
        write_csv(record, csv_path)
    if svg_path:
        with open(svg_path, "w", encoding="utf-8") as file:
            file.write(plot.to_svg(record))
        print(f"\nthe plot: {svg_path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="what bench_gpu wrote by --json")
    parser.add_argument("--csv", help="the medians, as a file")
    parser.add_argument("--svg", help="the plot, as a file")
    parser.add_argument("--floor", help="what bench_floor wrote of this machine by --json")
    arguments = parser.parse_args()
    report(arguments.files, arguments.csv, arguments.svg, arguments.floor)


if __name__ == "__main__":
    try:
        main()
    except (Failure, OSError) as failure:
        print(f"report: {failure}", file=sys.stderr)
        sys.exit(1)
