#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The comparison on GPUs as a program, over the driver of device-cuda's tests: what it times is no GPU, but that it goes on
where it was cut, and what it refuses, is seen here."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = os.environ["SL_TEST_BUILD_DIR"]
LIBRARY = f"{BUILD}/lib/libnccl.so.2"
PATIENCE_S = 100


class BenchGpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = f"{folder.name}/record.json"

    def command(self, *options):
        return [f"{BUILD}/bin/bench_gpu", "--library", LIBRARY, LIBRARY, "--issue", "eager", "--memory", "plain",
                "--collectives", "all_reduce", "--rounds", "1", "--json", self.file, *options]

    def run_bench(self, *options):
        return subprocess.run(self.command(*options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE_S, check=False)

    def sizes(self):
        with open(self.file, encoding="utf-8") as file:
            return [point["bytes"] for point in json.load(file)["points"]]

    def test_goes_on_where_it_was_killed(self):
        with subprocess.Popen(self.command("-e", "512"), stdout=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + PATIENCE_S
            while process.poll() is None and not (os.path.exists(self.file) and self.sizes()):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
        kept = len(self.sizes())
        self.assertGreater(kept, 0)
        done = self.run_bench("-e", "512", "--resume")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"{5 - kept} points to measure, {kept} kept", done.stdout)
        self.assertEqual(self.sizes(), [8, 32, 64, 128, 512])

    def test_gathers_slices_and_measures_nothing_twice(self):
        for part in ("1/2", "2/2"):
            done = self.run_bench("-e", "64", "--slice", part, "--resume")
            self.assertEqual(done.returncode, 0, done.stdout)
        done = self.run_bench("-e", "64", "--resume")
        self.assertIn("0 points to measure, 3 kept", done.stdout)
        self.assertEqual(self.sizes(), [8, 32, 64])

    def test_refuses_what_was_measured_otherwise(self):
        self.assertEqual(self.run_bench("-e", "8").returncode, 0)
        done = self.run_bench("-e", "8", "--resume", "-d", "float")
        self.assertEqual(done.returncode, 1)
        self.assertIn('datatype is "bfloat16" there and "float" here', done.stdout)
        self.assertEqual(self.sizes(), [8])

    def test_resume_needs_a_file(self):
        command = [f"{BUILD}/bin/bench_gpu", "--library", LIBRARY, "--resume"]
        self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 2)

    def test_measures_operations_that_take_what_the_one_before_left(self):
        done = self.run_bench("-e", "512", "--issue", "dependent,eager", "--collectives",
                              "all_reduce,all_gather,reduce_scatter,alltoall,broadcast,sendrecv,alltoallv")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("alltoallv of 512 bytes, dependent, plain buffers", done.stdout)
        self.assertEqual(len(self.sizes()), 2 * 7 * 5)

    def test_measures_each_budget_and_who_refuses_it(self):
        done = self.run_bench("-e", "8", "--ctas", "0,2,4")
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(self.file, encoding="utf-8") as file:
            rounds = {point["ctas"]: [len(us) for us in point["us"]] for point in json.load(file)["points"]}
        self.assertEqual(rounds, {0: [0, 0], 2: [1, 1], 4: [1, 1]})
        done = self.run_bench("-e", "8", "--ctas", "0,2,16", "--resume")
        self.assertIn("1 points to measure, 3 kept", done.stdout)

    def test_reports_what_was_measured_and_nothing_older(self):
        self.assertEqual(self.run_bench("-e", "8").returncode, 0)
        command = ["python3", "-B", f"{os.path.dirname(os.path.abspath(__file__))}/run_gpu_bench.py", "--build", BUILD,
                   "--library", LIBRARY, "--issue", "eager", "--memory", "plain", "--collectives", "all_reduce", "--rounds",
                   "1", "--json", self.file, "-e", "32"]
        done = subprocess.run([*command, "--resume"], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("1 points to measure, 1 kept", done.stdout)
        self.assertIn("all  ", done.stdout)
        self.assertTrue(os.path.exists(self.file.replace(".json", ".svg")))
        environment = {**os.environ, "SL_FAKE_CUDA_DEVICES": "0"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("0 points measured", done.stdout)
        self.assertNotIn("geometric mean", done.stdout)


if __name__ == "__main__":
    unittest.main()
