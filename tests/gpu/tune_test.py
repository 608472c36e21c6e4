#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning on GPUs as a program, over the driver of device-cuda's tests and kernels that the host runs: which family it finds
to be quickest says nothing, but that all are measured, that the profile it writes serves, and that nothing else in it is
touched, is seen here."""
import os
import subprocess
import tempfile
import unittest

BUILD = os.environ["SL_TEST_BUILD_DIR"]
PATIENCE_S = 300
FAMILIES = ("one_shot", "two_shot", "staged", "direct", "lamport_one_shot", "lamport_two_shot", "bulk", "push")
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
        done = self.starling("bench", "--tune", self.profile, "--gpus", "2", "-b", "64", "-e", "64", "--budget", "120",
                             *collectives)
        self.assertEqual(done.returncode, 0, done.stdout)
        for family in FAMILIES:
            self.assertIn(f"# {family}: 1 to measure\n", done.stdout)
        with open(self.profile, encoding="utf-8") as file:
            return file.read()

    def test_writes_a_profile_that_serves_and_replaces_only_what_it_wrote(self):
        first = self.tune("all_reduce")
        self.assertTrue(first.startswith(MINE), first)
        self.assertRegex(first, rf"(?m)^all_reduce 2: ({'|'.join(FAMILIES)})$")
        done = self.starling("profile", "check", self.profile)
        self.assertEqual(done.returncode, 0, done.stdout)
        again = self.tune("all_gather")
        self.assertTrue(again.startswith(MINE), again)
        self.assertEqual(again.count("[modules.algo-symmetric.options]"), 1, again)
        self.assertRegex(again, rf"(?m)^all_gather 2: ({'|'.join(FAMILIES)})$")
        self.assertNotIn("all_reduce 2:", again)


if __name__ == "__main__":
    unittest.main()
