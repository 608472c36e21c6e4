#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning on GPUs as a program, over the driver of device-cuda's tests and kernels that the host runs: which algorithm it
finds to be quickest says nothing, but that all are measured, that the profile it writes serves, and that nothing else in it
is touched, is seen here."""
import os
import subprocess
import tempfile
import unittest

BUILD = os.environ["SL_TEST_BUILD_DIR"]
PATIENCE_S = 500
SERVE = ("symmetric_one_shot", "symmetric_staged", "symmetric_direct", "symmetric_lamport_one_shot")
REFUSE = {"all_reduce": ("symmetric_push", "symmetric_bulk", "symmetric_p2p", "symmetric"),
          "all_gather": ("symmetric_push", "symmetric_two_shot", "sequence")}
MINE = 'profile_version = 1\n# as I wrote it\n[comm]\nreach_mib = 1000\n'


class TuneGpus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.profile = f"{folder.name}/site.toml"
        with open(self.profile, "w", encoding="utf-8") as file:
            file.write(MINE)

    def starling(self, *words):
        return subprocess.run([f"{BUILD}/bin/starling", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE_S, check=False)

    def tune(self, *collectives):
        done = self.starling("bench", "--tune", self.profile, "--gpus", "2", "-b", "64", "-e", "64", "--budget", "400",
                             *collectives)
        self.assertEqual(done.returncode, 0, done.stdout)
        for name in SERVE:
            self.assertIn(f"# {name}: 1 to measure\n", done.stdout)
        with open(self.profile, encoding="utf-8") as file:
            return file.read()

    def assert_costs(self, profile, collective):
        for name in SERVE:
            self.assertRegex(profile, rf'op = "{collective}"\nranks = 2\nalgorithm = "{name}"\ndevice = "cuda"\n'
                                      r'points = \[\[64, \d+\]\]\n')
        for name in REFUSE[collective]:
            self.assertNotIn(f'algorithm = "{name}"\n', profile)

    def test_explains_what_each_family_would_take(self):
        done = self.starling("explain", "reduce_scatter", "8", "256M", "--ranks", "2", "--device", "cuda", "--profile",
                             self.profile)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^\* symmetric_one_shot +1\.95\d us  launch, same bits on all ranks: one-shot packets")
        self.assertRegex(done.stdout, r"(?m)^\* symmetric_push .* us  launch, same bits on all ranks: pushes on 24 SMs$")
        self.assertRegex(done.stdout, r"(?m)^  symmetric_bulk +-  cannot: copy units do not reduce$")

    def test_writes_a_profile_that_serves_and_replaces_only_what_it_wrote(self):
        first = self.tune("all_reduce")
        self.assertTrue(first.startswith(MINE), first)
        self.assert_costs(first, "all_reduce")
        done = self.starling("profile", "check", self.profile)
        self.assertEqual(done.returncode, 0, done.stdout)
        again = self.tune("all_gather")
        self.assertTrue(again.startswith(MINE), again)
        self.assertEqual(again.count("[measured]"), 1, again)
        self.assert_costs(again, "all_gather")
        self.assertNotIn("all_reduce", again)


if __name__ == "__main__":
    unittest.main()
