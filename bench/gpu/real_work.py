#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an NCCL library is worth inside real work, on PyTorch: all-reduces one after the other, the steps of a decoder in a CUDA
graph, and data-parallel training, each with our library and with a peer. From the root of a built tree:

    ./run gpu-bench --real-work [--library /path/libnccl.so.2] [--json FILE]

The peer is the NCCL that PyTorch brings unless one is named. Each library has processes of its own, one a GPU, that stay for
the whole run and take turns, measurement by measurement; who waits does not use the GPU. Without the communication the same
work is measured too, so that its share shows. Exit code: 0 whoever won, also without PyTorch or with fewer than two GPUs; 1
something failed or was wrong; 2 bad usage.
"""
import argparse
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

import real_work_report as report
from record import Failure

HERE = os.path.dirname(os.path.abspath(__file__))
RANK = [sys.executable, "-B", os.path.join(HERE, "real_work_rank.py")]
PATIENCE_S = 90        # for an answer; the first one takes the start of PyTorch, CUDA and the library
GOODBYE_S = 20         # for processes that are told to end
PREFIXES = ("NCCL_", "TORCH_NCCL_", "STARLING_", "CUDA_DEVICE_", "CUDA_MODULE_")  # of what libraries read


def cases(memories=("plain",)):
    """Everything that is measured, in the order of the report; training uses PyTorch's own memory alone."""
    sizes = [8 * 4**i for i in range(9)]  # to 512 KiB
    for memory in memories:
        yield from ({"part": "all_reduce", "issue": issue, "memory": memory, "bytes": size} for issue in ("graph", "eager")
                    for size in sizes)
    for memory in memories:
        yield from ({"part": "decode", "memory": memory, "communicates": communicates} for communicates in (True, False))
    yield from ({"part": "train", "memory": "plain", "communicates": communicates} for communicates in (True, False))


class Team:
    """The processes of one library, one a GPU, that wait until they are asked. Bounded: what does not answer is a Failure."""

    def __init__(self, name, command, world, folder):
        self.name, self.folder = name, folder
        self.channels, self.processes = [], []
        meet = os.path.join(folder, f"{name}.meet")
        try:
            for rank in range(world):
                ours, theirs = socket.socketpair()
                self.channels.append(ours)
                with theirs, open(self._log(rank), "wb") as log:
                    # A session of its own: what `starling run` has started ends with it.
                    self.processes.append(subprocess.Popen(
                        [*command, "--rank", str(rank), "--world", str(world), "--meet", meet], stdin=theirs, stdout=log,
                        stderr=subprocess.STDOUT, start_new_session=True))
        except OSError:
            self.kill()
            raise

    def ask(self, order, patience_s=PATIENCE_S):
        """The answers of all ranks to one order."""
        for rank, channel in enumerate(self.channels):
            try:
                channel.sendall((json.dumps(order) + "\n").encode())
            except OSError as error:
                raise self._failure(rank, f"does not listen any more: {error.strerror}") from error
        lines = [b""] * len(self.channels)
        deadline = time.monotonic() + patience_s
        with selectors.DefaultSelector() as waiting:
            for rank, channel in enumerate(self.channels):
                waiting.register(channel, selectors.EVENT_READ, rank)
            while waiting.get_map():
                ready = waiting.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    late = min(key.data for key in waiting.get_map().values())
                    raise self._failure(late, f"has not answered within {patience_s} s: {json.dumps(order)}")
                for key, _ in ready:
                    if not (piece := self._receive(key)):
                        raise self._failure(key.data, f"has ended over: {json.dumps(order)}")
                    lines[key.data] += piece
                    if piece.endswith(b"\n"):
                        waiting.unregister(key.fileobj)
                        self._look(key.data, lines[key.data])
        return [json.loads(line) for line in lines]

    @staticmethod
    def _receive(key):
        try:
            return key.fileobj.recv(1 << 16)
        except ConnectionResetError:
            return b""

    def _look(self, rank, line):
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise self._failure(rank, f"says what is no answer: {line[:80]!r}") from error
        for word in ("error", "missing"):
            if word in answer:
                raise self._failure(rank, answer[word])

    def _log(self, rank):
        return os.path.join(self.folder, f"{self.name}-{rank}.log")

    def _failure(self, rank, why):
        with open(self._log(rank), encoding="utf-8", errors="replace") as log:
            last = log.read().splitlines()[-12:]
        return Failure("\n  | ".join([f"{self.name}, rank {rank}: {why}", *last]))

    def end(self):
        """Lets the processes end by themselves, and those that do not, not by themselves."""
        for channel in self.channels:
            channel.close()
        deadline = time.monotonic() + GOODBYE_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            for process in self.processes:
                process.wait(max(deadline - time.monotonic(), 0))
        self.kill()

    def kill(self):
        for channel in self.channels:
            channel.close()
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def introduce(team, ours=None):
    """Who the team's processes say they are. Raises Failure when they do not use the library that they should."""
    first, *others = team.ask({"introduce": True})
    if others.count(first) != len(others):
        raise Failure(f"{team.name}: ranks differ: {[first, *others]}")
    files = [os.path.realpath(file) for file in first["libraries"]]
    if len(files) != 1:
        raise Failure(f"{team.name}: NCCL comes from {' and '.join(files) or 'no file (is PyTorch linked with it statically?)'}")
    if ours is not None and (files[0] == os.path.realpath(ours)) != (team.name == report.NAMES[0]):
        raise Failure(f"{team.name}: NCCL comes from {files[0]}; was LD_PRELOAD set before?")
    return {**first, "path": files[0]}


def measure(teams, case, rounds):
    """The case with its rounds, the slowest rank's time of each, and what every rank had computed after the last one."""
    us, left = [[] for _ in teams], [None] * len(teams)
    for turn in range(rounds):
        for place in range(len(teams)):
            library = (place + turn) % len(teams)
            left[library] = teams[library].ask({"measure": case})
            us[library].append(max(answer["us"] for answer in left[library]))
    measured = {**case, "us": us}
    if "left" in left[0][0]:
        measured["left"] = [[answer["left"] for answer in answers] for answers in left]
    return measured


def probe():
    """What PyTorch finds on this machine: {"missing": why}, or its version, GPUs and the name of the first."""
    try:
        done = subprocess.run([*RANK, "--probe"], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise Failure(f"PyTorch does not start: {done.stderr.strip() or f'exit code {done.returncode}'}") from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"PyTorch has not started within {PATIENCE_S} s: python3 -c 'import torch' says why") from error


def write(path, document):
    """Replaces the file; who reads it has the old one or the new one."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    os.replace(path + ".new", path)


def compare(commands, conditions, path, ours, work):
    """Measures everything with the teams that `commands` start, by name, and leaves the record at `path`."""
    begin = time.monotonic()
    teams = []
    with tempfile.TemporaryDirectory(prefix="starling-real-work.") as folder:
        try:
            for name, command in commands.items():
                teams.append(Team(name, command, conditions["gpus"], folder))
            document = {report.MARK: report.REVISION, "conditions": conditions,
                        "libraries": [introduce(team, ours) for team in teams], "cases": []}
            write(path, document)  # before a minute is spent on what cannot be kept
            print(f"both are up after {time.monotonic() - begin:.0f} s", flush=True)
            for case in work:
                document["cases"].append(measure(teams, case, conditions["rounds"]))
                write(path, document)
            for team in teams:
                team.end()
        except BaseException:
            for team in teams:
                team.kill()
            raise
    print(f"measured within {time.monotonic() - begin:.0f} s", flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     prog="gpu-bench --real-work")
    parser.add_argument("--build", default="build", help="build folder (build)")
    parser.add_argument("--library", help="the peer's libnccl.so.2 (the one that PyTorch brings)")
    parser.add_argument("--json", help="everything measured, as a file (BUILD/gpu-real-work.json)")
    parser.add_argument("--gpus", type=int, help="how many; all by default")
    parser.add_argument("--symmetric", action="store_true",
                        help="all-reduces and decoding also in symmetric windows, so that the peer's best shows")
    parser.add_argument("--rounds", type=int, default=5, help="of every measurement (5)")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.gpus is not None and arguments.gpus < 2:
        parser.error("it takes a round and two GPUs at least")
    arguments.json = arguments.json or os.path.join(arguments.build, "gpu-real-work.json")
    return arguments


def main():
    arguments = parse_arguments()
    starling = os.path.join(arguments.build, "bin", "starling")
    if not os.path.exists(starling):
        raise Failure(f"{starling} is not there; build it with ./run build, or name another tree with --build")
    found = probe()
    gpus = arguments.gpus or found.get("gpus", 0)
    why = found.get("missing") or (f"{found['gpus']} GPUs are too few" if found["gpus"] < max(gpus, 2) else "")
    if why:
        print(f"real work: {why}; nothing measured")
        return 0
    environment = {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIXES)}
    conditions = {**found, "gpus": gpus, "rounds": arguments.rounds, "environment": environment}
    peer = [starling, "run", "--library", arguments.library, "--", *RANK] if arguments.library else RANK
    commands = dict(zip(report.NAMES, ([starling, "run", "--", *RANK], peer)))
    memories = ("plain", "symmetric") if arguments.symmetric else ("plain",)
    compare(commands, conditions, arguments.json, os.path.join(arguments.build, "lib", "libnccl.so.2"), cases(memories))
    record = report.read(arguments.json)
    print("\n".join(report.text(record)))
    print(f"every number: {arguments.json}")
    return 0 if record.is_right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, OSError) as failure:
        print(f"real work: {failure}", file=sys.stderr)
        sys.exit(1)
