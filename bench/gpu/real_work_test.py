#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""real_work.py with stand-ins for the processes that need PyTorch and GPUs, and what its report makes of records."""
import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import real_work
import real_work_report as report
from record import Failure

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 30
CONDITIONS = {"gpus": 2, "gpu": "A GPU", "torch": "2.11.0", "cuda": "13.0", "rounds": 3, "environment": {}}
DECODE = {"part": "decode", "memory": "plain", "communicates": True}


def stand_in(behaviour, rank):
    """A process that answers as real_work_rank.py does, or fails in the way that is named."""
    channel = socket.socket(fileno=os.dup(0))
    turns = 0
    for line in channel.makefile("r"):
        order = json.loads(line)
        turns += 1
        words = {"libraries": [f"/nowhere/{behaviour}/libnccl.so.2"], "version": 22809,
                 "decode": {"layers": 80, "sequences": 4, "width": 8192}, "train": {"parameters": 10**8, "tokens": 4096}}
        if "measure" in order:
            words = {"us": 10.0 * turns + rank}
            if order["measure"].get("communicates"):
                words["left"] = [2.0, 1.0]
        if behaviour == "dies" and turns == 3 and rank == 1:
            print("a last word", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "hangs" and turns == 3 and rank == 1:
            time.sleep(600)
        if behaviour == "differs" and rank == 1:
            words = {**words, "version": 22703}
        if behaviour == "fails" and turns == 2:
            words = {"error": "RuntimeError: no"}
        channel.sendall((json.dumps(words) + "\n").encode())


def command(behaviour):
    return [sys.executable, "-B", os.path.abspath(__file__), "--stand-in", behaviour]


class Teams(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = f"{folder.name}/record.json"

    def compare(self, ours, peer, work=(DECODE,)):
        with contextlib.redirect_stdout(io.StringIO()):
            real_work.compare({"ours": command(ours), "peer": command(peer)}, CONDITIONS, self.file, None, work)
        return report.read(self.file)

    def test_takes_the_slowest_rank_of_every_round_in_turns(self):
        record = self.compare("a", "b", [{"part": "all_reduce", "issue": "graph", "memory": "plain", "bytes": 8}, DECODE])
        self.assertEqual([case.us for case in record.cases], [[[21, 31, 41]] * 2, [[51, 61, 71]] * 2])
        self.assertEqual(record.cases[1].left, [[[2.0, 1.0]] * 2] * 2)
        self.assertEqual(record.libraries[1]["path"], "/nowhere/b/libnccl.so.2")

    def test_names_who_dies_with_its_last_words_and_keeps_what_was_measured(self):
        with self.assertRaisesRegex(Failure, r"peer, rank 1: has ended over: .*decode(.|\n)*a last word"):
            self.compare("a", "dies", [DECODE])
        self.assertEqual(report.read(self.file).cases, [])

    def test_names_who_hangs_and_ends_its_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            team = real_work.Team("peer", command("hangs"), 2, folder)
            self.addCleanup(team.kill)
            team.ask({"introduce": True}, PATIENCE_S)
            team.ask({"measure": DECODE}, PATIENCE_S)
            with self.assertRaisesRegex(Failure, "peer, rank 1: has not answered within 2 s"):
                team.ask({"measure": DECODE}, 2)
            team.kill()
            self.assertEqual(team.processes[1].returncode, -signal.SIGKILL)
            self.assertIsNotNone(team.processes[0].returncode)

    def test_says_what_a_rank_says_of_its_failure(self):
        with self.assertRaisesRegex(Failure, "ours, rank [01]: RuntimeError: no"):
            self.compare("fails", "b")

    def test_refuses_ranks_on_different_libraries(self):
        with self.assertRaisesRegex(Failure, "ours: ranks differ: .*22703"):
            self.compare("differs", "b")

    def test_refuses_the_wrong_library(self):
        with tempfile.TemporaryDirectory() as folder:
            team = real_work.Team("ours", command("a"), 1, folder)
            self.addCleanup(team.kill)
            with self.assertRaisesRegex(Failure, "ours: NCCL comes from /nowhere/a/libnccl.so.2; was LD_PRELOAD"):
                real_work.introduce(team, "/nowhere/starling/libnccl.so.2")
            real_work.introduce(team, "/nowhere/a/libnccl.so.2")


class Command(unittest.TestCase):
    def run_bench(self, *options, environment=None):
        return subprocess.run([sys.executable, "-B", f"{HERE}/run_gpu_bench.py", "--real-work", *options], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False,
                              env={**os.environ, **(environment or {})})

    def test_refuses_bad_usage(self):
        for options in (["--rounds", "0"], ["--gpus", "1"], ["--memory", "plain"]):
            self.assertEqual(self.run_bench(*options).returncode, 2, options)

    def test_says_what_is_not_built(self):
        done = self.run_bench("--build", "/nowhere")
        self.assertEqual((done.returncode, done.stdout.strip()),
                         (1, "real work: /nowhere/bin/starling is not there; build it with ./run build, or name another tree "
                             "with --build"))

    def test_measures_nothing_without_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/bin")
            os.symlink("/bin/true", f"{folder}/bin/starling")
            with open(f"{folder}/torch.py", "w", encoding="utf-8") as file:
                file.write("raise ImportError('left out')\n")
            done = self.run_bench("--build", folder, environment={"PYTHONPATH": folder})
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stdout, "real work: no PyTorch for .*: left out; nothing measured")
            self.assertFalse(os.path.exists(f"{folder}/gpu-real-work.json"))


def all_reduce(issue, size, ours, peer, memory="plain"):
    return {"part": "all_reduce", "issue": issue, "memory": memory, "bytes": size, "us": [[ours * 1.01, ours, ours * 0.99], [peer] * 3]}


def steps(part, ours, peer, bare, left):
    """A step with communication and one without; `left`, of each library, has every rank."""
    return [{"part": part, "memory": "plain", "communicates": True, "us": [[ours], [peer]], "left": [[one, one] for one in left]},
            {"part": part, "memory": "plain", "communicates": False, "us": [[bare], [bare]]}]


class Report(unittest.TestCase):
    def record(self, cases):
        library = {"path": "/lib/libnccl.so.2", "version": 22809, "decode": {"layers": 80, "sequences": 4, "width": 8192},
                   "train": {"parameters": 168_000_000, "tokens": 4096}}
        return report.Record({"conditions": CONDITIONS, "libraries": [library] * 2, "cases": cases})

    def lines(self, cases):
        return list(report.text(self.record(cases)))

    def test_marks_losses_and_counts_where_the_target_is_reached(self):
        lines = self.lines([all_reduce("graph", 8, 4, 12), all_reduce("graph", 32, 4, 8), all_reduce("eager", 8, 10, 9)])
        text = "\n".join(lines)
        self.assertRegex(text, r"geometric mean +2\.45; target 2\.5, reached at 1 of 2 sizes")
        self.assertEqual([line.split()[0] for line in lines if line.endswith(" LOSS")], ["8"])
        self.assertIn("lost (below 0.97 times as fast): 1 of 3", text)
        self.assertIn("  all_reduce of 8 B, eager, plain buffers: 0.90, 10.0 against 9.00 µs", text)

    def test_shares_and_rates_follow_from_the_medians(self):
        text = "\n".join(self.lines(steps("decode", 1600, 2000, 1200, [[1.0], [1.0]])))
        self.assertRegex(text, r"80 layers, each 4 x 4096 by 4096 x 8192 in bfloat16, then the all-reduce of 64 KiB")
        self.assertRegex(text, r"communication's share +25\.0% +40\.0%")
        self.assertRegex(text, r"tokens/s +2500 +2000")
        self.assertRegex(text, r"µs a layer +20\.0 +25\.0")
        bare = steps("train", 2, 2, 1, [[9.0, 7.0]] * 2)
        bare[1]["us"][1] = [0.5]  # no library is to blame
        self.assertNotIn("LOSS", "\n".join(self.lines(bare)))
        text = "\n".join(self.lines(steps("train", 20000, 16384, 16000, [[9.0, 7.0], [9.0, 7.01]])))
        self.assertRegex(text, r"a step .* 0\.82 LOSS")
        self.assertRegex(text, r"tokens/s +409600 +500000")
        self.assertRegex(text, r"losses differ by up to 1\.4e-03 \(tolerance 0\.01\)")
        self.assertNotIn("WRONG", text)

    def test_the_best_of_the_peer_is_the_quicker_of_plain_and_symmetric(self):
        cases = [all_reduce("graph", 8, 4, 12), all_reduce("graph", 32, 4, 4),
                 all_reduce("graph", 8, 9, 8, "symmetric"), all_reduce("graph", 32, 1, 9, "symmetric")]
        self.assertRegex("\n".join(self.lines(cases)), r"all_reduce, graph +1\.41  \(2 points, 0 lost\)")
        self.assertNotIn("the peer's best", "\n".join(self.lines(cases[:2])))

    def test_libraries_that_compute_different_things_are_wrong(self):
        self.assertEqual(list(report.disagreements(self.record(steps("decode", 1, 1, 1, [[3.0, 4.0], [3.0, 4.01]])))), [])
        for cases, words in ((steps("decode", 1, 1, 1, [[3.0, 4.0], [3.0, 5.0]]), "decoding, plain buffers: results differ by 1.7e-01"),
                             (steps("decode", 1, 1, 1, [[float("nan")], [1.0]]), "decoding, plain buffers: results differ by nan"),
                             (steps("train", 1, 1, 1, [[9.0, 7.0], [9.0, 8.0]]), "training: losses differ by 1.2e-01"),
                             (steps("train", 1, 1, 1, [[9.0, 9.1], [9.0, 9.1]]), "training with ours: the loss does not fall")):
            found = list(report.disagreements(self.record(cases)))
            self.assertTrue(any(one.startswith(words) for one in found), found)
            self.assertIn("WRONG", "\n".join(self.lines(cases)))
        cases = steps("decode", 1, 1, 1, [[1.0], [1.0]])
        cases[0]["left"][1] = [[1.0], [1.5]]
        self.assertEqual(list(report.disagreements(self.record(cases))), ["decoding with peer, plain buffers: ranks have different results"])

    def test_a_record_of_half_a_run_has_a_report(self):
        self.assertIn("lost (below 0.97 times as fast): 0 of 0", "\n".join(self.lines([])))
        self.assertIn("a step", "\n".join(self.lines(steps("train", 1, 1, 1, [[9.0, 7.0]] * 2)[:1])))

    def test_what_is_no_record_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bad.json")
            for text in ("", "[]", '{"starling_real_work": 2}', '{"starling_real_work": 1, "cases": [{}]}'):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                with self.assertRaisesRegex(Failure, "bad.json"):
                    report.read(path)
            with self.assertRaisesRegex(Failure, "none.json"):
                report.read(os.path.join(folder, "none.json"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stand-in"]:
        stand_in(sys.argv[2], int(sys.argv[sys.argv.index("--rank") + 1]))
    else:
        unittest.main()
