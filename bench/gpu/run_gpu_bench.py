#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares libraries with the NCCL API on this machine's GPUs, then reports: what `./run gpu-bench` calls, from the root of a
built tree.

    ./run gpu-bench --library /path/libnccl.so.2 [OPTION...]
    ./run gpu-bench --real-work [OPTION...]      what it is worth under PyTorch instead: real_work.py, --help behind it

Ours is build/lib/libnccl.so.2; the options here are those of the report, all others go to build/bin/bench_gpu, whose own help
follows. A run that was cut goes on with the same words and --resume; slices gather in one file with --resume, too, and
slices in several files are put together by `python3 bench/gpu/report.py FILE... --svg FILE`. Exit code: 0 whoever won, also
without a GPU; 1 something failed or was wrong; 2 bad usage.
"""
import argparse
import os
import subprocess
import sys

import nccl_tests
import record
import report

HERE = os.path.dirname(os.path.abspath(__file__))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     add_help=False, allow_abbrev=False, usage=argparse.SUPPRESS)
    parser.add_argument("-h", "--help", action="store_true", help="this, and bench_gpu's")
    parser.add_argument("--build", default="build", help="build folder (build)")
    parser.add_argument("--json", help="everything measured, as a file (BUILD/gpu-bench.json)")
    parser.add_argument("--svg", help="the plot, as a file (beside that of --json)")
    parser.add_argument("--csv", help="the medians, as a file")
    parser.add_argument("--nccl-tests", metavar="DIR", help="then run nccl-tests' programs of this folder at ten points, too")
    parser.add_argument("--more-elements", help=argparse.SUPPRESS)  # bench_gpu's, with which nccl-tests has nothing to compare
    arguments, others = parser.parse_known_args()
    if arguments.more_elements is not None:
        others += ["--more-elements", arguments.more_elements]
    arguments.json = arguments.json or os.path.join(arguments.build, "gpu-bench.json")
    arguments.svg = arguments.svg or os.path.splitext(arguments.json)[0] + ".svg"
    if arguments.help:
        parser.print_help()
        print(flush=True)
        others = ["--help"]
    return arguments, others


def state(path):
    """Changes with every rewriting of the file; None: there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def cross_check(arguments):
    """What nccl-tests says of the same libraries, beside the record."""
    measured = record.read(arguments.json)
    found = nccl_tests.measure(measured, arguments.nccl_tests, os.path.join(arguments.build, "bin", "starling"))
    print("\n".join(nccl_tests.table(measured, found)), flush=True)


def main():
    if "--real-work" in sys.argv[1:]:
        others = [word for word in sys.argv[1:] if word != "--real-work"]
        return subprocess.run([sys.executable, "-B", os.path.join(HERE, "real_work.py"), *others], check=False).returncode
    arguments, others = parse_arguments()
    program = os.path.join(arguments.build, "bin", "bench_gpu")
    library = os.path.join(arguments.build, "lib", "libnccl.so.2")
    if arguments.nccl_tests:
        nccl_tests.require(arguments.nccl_tests, arguments.more_elements)  # before minutes are spent
    before = state(arguments.json)
    code = subprocess.run([program, "--library", library, "--json", arguments.json, *others], check=False).returncode
    # Also of a run that failed half-way; not of an older one's file.
    if state(arguments.json) != before and record.read(arguments.json).points:
        report.report([arguments.json], arguments.csv, arguments.svg)
        if arguments.nccl_tests and code == 0:
            cross_check(arguments)
        print(f"every number: {arguments.json}" + ("; with --resume a run goes on there" if code else ""))
    return code if code >= 0 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (record.Failure, OSError) as failure:
        print(f"gpu-bench: {failure}", file=sys.stderr)
        sys.exit(1)
