# SPDX-License-Identifier: Apache-2.0
"""A second opinion on what bench_gpu has measured: nccl-tests' programs at ten points of its grid, over the same libraries."""
import os
import subprocess

from record import Failure, number_text, size_text

# One run each: sizes a factor of 64 apart, a thread a GPU, plain buffers, as in bench_gpu.
RUNS = (("all_reduce", "graph", (8, 512, 32 << 10, 2 << 20, 128 << 20)), ("all_reduce", "eager", (32 << 10, 2 << 20)),
        ("all_gather", "graph", (2 << 20,)), ("reduce_scatter", "graph", (2 << 20,)), ("alltoall", "graph", (2 << 20,)))
STEP = 64
APART = 0.15       # figures that differ by more are marked
PATIENCE_S = 120   # for a run
ISSUE = {"eager": ["-n", "400"], "graph": ["-n", "200", "-G", "2"]}  # -n operations in a graph, launched -G times


def program(folder, collective):
    return os.path.join(folder, f"{collective}_perf")


def require(folder, more_elements=None):
    """Raises Failure when the folder lacks a program that will be needed, or none can measure what is to be compared."""
    if more_elements not in (None, "0"):
        raise Failure("nccl-tests has nothing like --more-elements; leave out one of both")
    missing = [name for name in sorted({program(folder, collective) for collective, _, _ in RUNS}) if not os.path.exists(name)]
    if missing:
        raise Failure(f"there is no {' and no '.join(missing)}; --nccl-tests names the folder that nccl-tests was built into")


def times(text):
    """{bytes: µs} of a table: the out-of-place times."""
    rows = (line.split() for line in text.splitlines())
    return {int(row[0]): float(row[5]) for row in rows if len(row) > 5 and row[0].isdigit()}


def run(starling, library, folder, gpus, datatype, op, collective, issue, sizes):
    """{bytes: µs} of one of RUNS over one library. Raises Failure."""
    words = [program(folder, collective), "-t", str(gpus), "-g", "1", "-d", datatype, "-o", op, "-b", str(sizes[0]),
             "-e", str(sizes[-1]), "-f", str(STEP), "-w", "5", "-c", "0", "-a", "3", *ISSUE[issue]]
    try:
        done = subprocess.run([starling, "run", "--library", library, "--", *words], capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S, errors="replace")
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(words)} over {library}: not done after {PATIENCE_S} s") from error
    found = times(done.stdout)
    doubts = [line for line in done.stderr.splitlines() if line.startswith("starling run:")]  # the library is another one
    if done.returncode != 0 or doubts or not found:
        last = doubts or (done.stdout + done.stderr).splitlines()[-3:]
        raise Failure(f"{' '.join(words)} over {library}: exit code {done.returncode}\n  | " + "\n  | ".join(last))
    return found


def measure(record, folder, starling):
    """{(collective, issue, bytes): µs of each library} by nccl-tests. Raises Failure."""
    found = {}
    for collective, issue, sizes in RUNS:
        by_library = [run(starling, path, folder, record.gpus, record.conditions["datatype"], record.conditions["op"], collective, issue, sizes)
                      for path in record.paths]
        for size in sizes:
            found[collective, issue, size] = [us.get(size) for us in by_library]
    return found


def cell(ours, theirs):
    """What both have measured of one library, and how far apart that is."""
    if ours is None or theirs is None:
        return f"{number_text(ours) if ours else '-':>10} {number_text(theirs) if theirs else '-':>10} {'':7} {'':7}"
    apart = theirs / ours - 1
    return f"{number_text(ours):>10} {number_text(theirs):>10} {apart:>+7.0%} {'DIFFERS' if abs(apart) > APART else '':7}"


def table(record, found):
    """Beside the record's medians, as lines."""
    points = {(point.collective, point.issue, point.bytes): point for point in record.free() if point.memory == "plain"}
    yield "\nnccl-tests at ten points, plain buffers: µs of gpu-bench, of nccl-tests, and how much more that is"
    yield f"{'':32}" + "".join(f" {name:^37}" for name in record.names())
    apart = 0
    for key, theirs in found.items():
        point = points.get(key)
        ours = [point.median(library) if point and point.serves(library) else None for library in range(len(theirs))]
        row = "".join(f" {cell(*both)}" for both in zip(ours, theirs))
        apart += "DIFFERS" in row
        missing = "" if point else " not in this record"
        yield f"{f'{key[0]} of {size_text(key[2])}, {key[1]}':<32}{row.rstrip()}{missing}"
    yield f"{apart} of {len(found)} points differ by more than {APART:.0%}"
