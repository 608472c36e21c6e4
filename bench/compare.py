#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our collectives beside Open MPI's and Gloo's, in one run: what `./run bench` calls.

Rounds are interleaved (ours, peer, peer, ours, ...), every library is measured by the same loop (same inputs, warm-ups,
iterations, barrier and clock; the slowest rank's mean of back-to-back calls), and every result is checked. Printed are
medians over the rounds with their extremes. A size at which ours is slower is marked LOSS. Only the standard library.
Exit code: 0 measured (whoever won), 1 something failed or was wrong, 2 bad usage.
"""
import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv"]
NAMES = {"starling": "Starling", "openmpi": "Open MPI", "gloo": "Gloo"}
FULL_SIZES = [8 * 4**k for k in range(12)] + [64 << 20]
QUICK_SIZES = [8, 512, 32 << 10, 512 << 10, 8 << 20]
TIMEOUT_S = 240


class Failure(Exception):
    """A program that did not end well, in words."""


def run(command, env=None):
    """Runs a command and returns its standard output; raises Failure with its last words."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S,
                              env={**os.environ, **(env or {})}, check=False)
    except subprocess.TimeoutExpired as expired:
        raise Failure(f"{' '.join(command)}: no end after {TIMEOUT_S} s") from expired
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()[-5:]
        raise Failure(f"{' '.join(command)}: exit code {done.returncode}\n  " + "\n  ".join(words))
    return done.stdout


class Starling:
    """Our library through `starling bench`."""

    key = "starling"

    def __init__(self, build, library, register):
        self.command = [os.path.join(build, "bin", "starling"), "bench"]
        self.options = ["-n", "0", "-w", "-1", "-a", "3", "-c", "1", "--out-of-place-only", "-R", str(register)]
        if library:
            self.options += ["--library", library]
        self.missing = "" if os.path.exists(self.command[0]) else f"{self.command[0]} is not built"

    def document(self, collective, ranks, low, high, factor):
        """One `starling bench` run as its JSON document."""
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            run(self.command + [collective, "--ranks", str(ranks), "-b", str(low), "-e", str(high), "-f", str(factor),
                                "-J", out.name] + self.options)
            return json.load(open(out.name, encoding="utf-8"))

    def measure(self, collectives, ranks, sizes):
        """Yields (collective, requested size, sample in us, how many elements were wrong)."""
        for collective in collectives:
            for low, high, factor in walks(sizes):
                results = self.document(collective, ranks, low, high, factor)["results"]
                for size, result in zip([s for s in sizes if low <= s <= high], results):
                    half = result["out_of_place"]
                    yield collective, size, half["time_us"], half["nwrong"]


class Peer:
    """Another library through its program in build/bin."""

    def __init__(self, key, build, launch):
        self.key = key
        self.program = os.path.join(build, "bin", f"bench_peer_{key}")
        self.launch = launch
        found = os.path.exists(self.program)
        self.missing = "" if found else f"{self.program} is not built (is the library installed?)"

    def measure(self, collectives, ranks, sizes):
        text = run(self.launch(self.program, ranks) + ["--collectives", ",".join(collectives), "--sizes",
                                                       ",".join(map(str, sizes))],
                   env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        wanted = [(collective, size) for collective in collectives for size in sizes]
        if len(lines) != len(wanted):
            raise Failure(f"{self.program} printed {len(lines)} points where {len(wanted)} were asked for")
        for (collective, size), line in zip(wanted, lines):
            yield collective, size, line["samples_us"][0], line["nwrong"]


def mpirun(program, ranks):
    """As a user starts it: binding is Open MPI's own choice."""
    return ["mpirun", "--oversubscribe", "-np", str(ranks), program]


def gloo_ranks(program, ranks):
    return [program, "--ranks", str(ranks)]


def walks(sizes):
    """Splits sorted sizes into (low, high, factor) walks of `starling bench`."""
    result, begin = [], 0
    while begin < len(sizes):
        factor = sizes[begin + 1] // sizes[begin] if begin + 1 < len(sizes) else 2
        end = begin
        while end + 1 < len(sizes) and sizes[end + 1] == sizes[end] * factor:
            end += 1
        result.append((sizes[begin], sizes[end], max(factor, 2)))
        begin = end + 1
    return result


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else float("nan")


def size_text(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size:g} {unit}"
        size /= 1024
    return ""


def time_text(us):
    digits = 3 if us < 1 else 2 if us < 100 else 1 if us < 1000 else 0
    return f"{us:.{digits}f}"


class Comparison:
    """Samples of all libraries: {(ranks, collective, size): {library: [us per round]}}."""

    def __init__(self, libraries):
        self.libraries = libraries
        self.samples = {}
        self.wrong = 0

    def rounds(self, count, collectives, ranks, sizes):
        for number in range(count):
            # Another one begins each round, so that nobody always runs on a machine that the same other one left warm.
            turn = number % len(self.libraries)
            for library in self.libraries[turn:] + self.libraries[:turn]:
                began = time.monotonic()
                try:
                    self.one_round(library, collectives, ranks, sizes)
                except Failure as failure:
                    self.leave_out(library, failure)
                    continue
                print(f"  {ranks} ranks, round {number + 1} of {count}: {NAMES[library.key]} "
                      f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)

    def one_round(self, library, collectives, ranks, sizes):
        for collective, size, us, wrong in library.measure(collectives, ranks, sizes):
            point = self.samples.setdefault((ranks, collective, size), {})
            point.setdefault(library.key, []).append(us)
            self.wrong += wrong or 0

    def leave_out(self, library, failure):
        """A peer that does not run here spoils nothing but its own column; ours must run."""
        if library.key == "starling":
            raise failure
        print(f"{NAMES[library.key]} left out: {failure}", flush=True)
        self.libraries.remove(library)
        for samples in self.samples.values():
            samples.pop(library.key, None)

    def points(self):
        """One dictionary per point, with medians, extremes and ratios."""
        for (ranks, collective, size), samples in self.samples.items():
            point = {"ranks": ranks, "collective": collective, "size": size, "libraries": {}, "speedup": {}}
            for key, values in samples.items():
                point["libraries"][key] = {"median_us": median(values), "min_us": min(values), "max_us": max(values),
                                           "samples_us": values}
            ours = point["libraries"]["starling"]["median_us"]
            for key in samples:
                if key != "starling":
                    point["speedup"][key] = point["libraries"][key]["median_us"] / ours
            yield point


def print_points(points, peers):
    """One table per collective and number of ranks."""
    heading = None
    for point in points:
        group = (point["collective"], point["ranks"])
        if group != heading:
            heading = group
            op = ", float sum" if point["collective"] in ("all_reduce", "reduce_scatter") else ", float"
            print(f"\n{group[0]}, {group[1]} ranks{op}: µs, median [min..max]; x = how many times faster ours is")
            row = f"{'size':>9}  {'Starling':>26}"
            for peer in peers:
                row += f"  {NAMES[peer]:>26}  {'x':>7}     "
            print(row.rstrip())
        cells = f"{size_text(point['size']):>9}  {cell(point, 'starling')}"
        for peer in peers:
            ratio = point["speedup"][peer]
            cells += f"  {cell(point, peer)}  {ratio:7.2f} {'LOSS' if ratio < 1 else '    '}"
        print(cells.rstrip())


def cell(point, key):
    values = point["libraries"][key]
    spread = f"[{time_text(values['min_us'])}..{time_text(values['max_us'])}]"
    return f"{time_text(values['median_us']):>9} {spread:>16}"


def print_means(points, peers):
    """Geometric means, per collective and over all, and the losses by name."""
    means = {}
    print("\ngeometric mean of how many times faster ours is")
    for peer in peers:
        for ranks in sorted({point["ranks"] for point in points}):
            means[f"{peer}/{ranks}"] = {}
            parts = []
            for collective in COLLECTIVES:
                ratios = [p["speedup"][peer] for p in points if p["collective"] == collective and p["ranks"] == ranks]
                if ratios:
                    means[f"{peer}/{ranks}"][collective] = geometric_mean(ratios)
                    parts.append(f"{collective} {geometric_mean(ratios):.2f}")
            overall = geometric_mean([p["speedup"][peer] for p in points if p["ranks"] == ranks])
            means[f"{peer}/{ranks}"]["all"] = overall
            print(f"  against {NAMES[peer]}, {ranks} ranks: {', '.join(parts)}; all {overall:.2f}")
    for peer in peers:
        lost = [p for p in points if p["speedup"][peer] < 1]
        names = ", ".join(f"{p['collective']} of {size_text(p['size'])}, {p['ranks']} ranks ({p['speedup'][peer]:.2f})"
                          for p in lost)
        print(f"  lost to {NAMES[peer]}: {len(lost)} of {len(points)}" + (f": {names}" if lost else ""))
    return means


def memory_bound(build, points, quick):
    """The largest all-reduce of two ranks beside what memory allows: each rank sums one half of the result out of two
    inputs and copies the other half, both ranks at once."""
    command = [os.path.join(build, "bin", "bench_membw"), "--threads", "2"] + (["--samples", "3"] if quick else [])
    bandwidth = json.loads(run(command))
    print(f"\nmemory, {bandwidth['threads']} threads: memcpy {bandwidth['memcpy_gb_per_s']:.1f} GB/s, two-input sum "
          f"{bandwidth['sum2_gb_per_s']:.1f} GB/s (of output)")
    large = [p for p in points if p["collective"] == "all_reduce" and p["ranks"] == 2 and p["size"] >= 8 << 20]
    bandwidth["all_reduce"] = []
    for point in large:
        bound_us = (point["size"] / bandwidth["sum2_gb_per_s"] + point["size"] / bandwidth["memcpy_gb_per_s"]) / 1e3
        ours = point["libraries"]["starling"]["median_us"]
        bandwidth["all_reduce"].append({"size": point["size"], "bound_us": bound_us, "over_bound": ours / bound_us})
        print(f"  all_reduce of {size_text(point['size'])}: {time_text(ours)} µs, sum and copy alone take "
              f"{time_text(bound_us)} µs: {ours / bound_us:.2f} times that")
    return bandwidth


def start_up(starling):
    """Creating a communicator of eight processes: the median of five."""
    documents = [starling.document("all_reduce", 8, 8, 8, 2)["init"] for _ in range(5)]
    result = {key: median([document[key] for document in documents]) for key in ("ms", "kib_per_rank")}
    print(f"\nncclCommInitRank of 8 processes: {result['ms']:.1f} ms, "
          f"{result['kib_per_rank']:.0f} KiB touched per rank")
    return result


def dispatch(build):
    """From ncclAllReduce to the entry of an algorithm that does nothing."""
    program = os.path.join(build, "bin", "bench_dispatch")
    if not os.path.exists(program):
        return None
    result = json.loads(run([program]))
    same, mixed = result["same"], result["mixed"]
    print(f"call to algorithm: {same['entry_ns']:.0f} ns (10 to 90 %: {same['entry_low_ns']:.0f} to "
          f"{same['entry_high_ns']:.0f}), {mixed['entry_ns']:.0f} ns with 16 sizes in turn; reading the clock takes "
          f"{same['clock_ns']:.0f} of it")
    call = result["module_call"]
    print(f"call into another module: {call['table_ns']:.1f} ns through its table, {call['direct_ns']:.1f} ns directly")
    return result


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder (build)")
    parser.add_argument("--out", default=None, help="JSON file to write (BUILD/bench.json)")
    parser.add_argument("--quick", action="store_true", help="five sizes, under a minute and a half")
    parser.add_argument("--rounds", type=int, default=5, help="samples per point (5)")
    parser.add_argument("--library", default=None, help="NCCL library to measure as ours")
    parser.add_argument("--register", type=int, default=0, choices=(0, 1, 2), help="as -R of starling bench (0)")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES), help="separated by commas (all five)")
    arguments = parser.parse_args()
    arguments.collectives = arguments.collectives.split(",")
    unknown = [name for name in arguments.collectives if name not in COLLECTIVES]
    if unknown or arguments.rounds < 1:
        parser.error(f"there are {', '.join(COLLECTIVES)}" if unknown else "--rounds must be 1 or more")
    return arguments


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main():
    arguments = parse_arguments()
    ours = Starling(arguments.build, arguments.library, arguments.register)
    if ours.missing:
        raise Failure(f"{ours.missing}; run ./run build first")
    libraries = [ours]
    for peer in (Peer("openmpi", arguments.build, mpirun), Peer("gloo", arguments.build, gloo_ranks)):
        if peer.missing:
            print(f"{NAMES[peer.key]} left out: {peer.missing}")
        else:
            libraries.append(peer)
    print(f"{processor()}, {os.cpu_count()} cores, Linux {platform.release()}; {arguments.rounds} rounds", flush=True)
    comparison = Comparison(libraries)
    comparison.rounds(arguments.rounds, arguments.collectives, 2, QUICK_SIZES if arguments.quick else FULL_SIZES)
    # Ranks that outnumber the cores: the smallest size shows whether waiting burns them.
    comparison.rounds(arguments.rounds, arguments.collectives[:1] if arguments.quick else arguments.collectives, 4, [8])
    peers = [library.key for library in comparison.libraries if library is not ours]
    points = list(comparison.points())
    print_points(points, peers)
    means = print_means(points, peers)
    document = {"processor": processor(), "cores": os.cpu_count(), "kernel": platform.release(),
                "rounds": arguments.rounds, "register": arguments.register, "points": points, "geometric_means": means,
                "wrong": comparison.wrong, "memory": memory_bound(arguments.build, points, arguments.quick),
                "init_8_processes": start_up(ours), "dispatch": dispatch(arguments.build)}
    path = arguments.out or os.path.join(arguments.build, "bench.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    print(f"every number: {path}")
    if comparison.wrong:
        raise Failure(f"{comparison.wrong} wrong elements")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(f"bench: {failure}", file=sys.stderr)
        sys.exit(1)
