#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a build took, by kind, and its ten dearest steps: scripts/build_times.py [BUILD_FOLDER].

Reads ninja's log, which keeps the last time of each step. Seconds are those of the wall clock: steps that ran side by side
count each, and what came out of the compiler cache counts as short as it was.
"""
import collections
import os
import sys

KINDS = (("GPU images", lambda out: out.endswith(".fatbin")),
         ("tests", lambda out: "_test" in out or "/tests/" in out or out.startswith("tests/")),
         ("kernel", lambda out: "starling_kernel" in out),
         ("modules", lambda out: "/modules/" in out or out.startswith("lib/starling/")),
         ("tools", lambda out: "/tools/" in out or out.startswith("bin/")),
         ("benchmarks and examples", lambda out: "/bench/" in out or "/examples/" in out),
         ("the rest", lambda out: True))


def steps(log, root):
    """Seconds of each output; a command with several outputs counts once, a path in the build folder is relative."""
    taken = {}
    for line in log:
        if line.startswith("#"):
            continue
        start, end, _, out, command = line.rstrip("\n").split("\t")
        taken[command] = (int(end) - int(start), os.path.relpath(out, root) if os.path.isabs(out) else out)
    return [(milliseconds / 1000, out) for milliseconds, out in taken.values()]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "build"
    try:
        with open(os.path.join(folder, ".ninja_log"), encoding="utf-8") as log:
            taken = steps(log, os.path.abspath(folder))
    except OSError as error:
        sys.exit(f"build_times: {error}; build first: ./run build")
    total, count = collections.Counter(), collections.Counter()
    for seconds, out in taken:
        kind = next(name for name, matches in KINDS if matches(out))
        total[kind] += seconds
        count[kind] += 1
    print(f"{'seconds':>9}  {'steps':>5}  kind")
    for kind, seconds in total.most_common():
        print(f"{seconds:9.1f}  {count[kind]:5}  {kind}")
    print(f"{sum(total.values()):9.1f}  {len(taken):5}  all\n")
    print(f"{'seconds':>9}  the ten dearest steps")
    for seconds, out in sorted(taken, reverse=True)[:10]:
        print(f"{seconds:9.1f}  {out}")


if __name__ == "__main__":
    main()
