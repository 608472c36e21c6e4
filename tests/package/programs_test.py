#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installed programs work from wherever they are, find their siblings by themselves, and name those that are missing."""
import os
import shutil
import sys
import unittest

from installed import InstalledTest, PREFIX, STARLING

DROP_IN = os.path.join(PREFIX, "lib", "starling", "nccl", "libnccl.so.2")
# A program that uses NCCL's API, in a process that knows nothing of Starling but the path it was given.
TWO_RANKS = """
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1])
comms = (ctypes.c_void_p * 2)()
assert nccl.ncclCommInitAll(comms, 2, None) == 0
for comm in comms: assert nccl.ncclCommAbort(ctypes.c_void_p(comm)) == 0
"""


class Programs(InstalledTest):
    def test_find_modules_and_profiles(self):
        modules = self.run_command(STARLING, "modules")
        self.assertIn(os.path.join(PREFIX, "lib", "starling", "algo-ring.so"), modules)
        self.assertIn("# profile links", self.run_command(STARLING, "profile", "show", "links"))

    def test_measure_with_the_drop_in(self):
        table = self.run_command(STARLING, "bench", "all_gather", "--ranks", "2", "-b", "8", "-e", "64K", "-f", "16", "-n", "3")
        self.assertIn("Out of bounds values : 0 OK", table)

    def test_are_found_through_a_link(self):
        link = os.path.join(self.work, "starling")
        os.symlink(STARLING, link)
        self.assertIn("algo-ring", self.run_command(link, "modules"))

    def test_preload_the_drop_in(self):
        said = self.run_command(STARLING, "run", "--", sys.executable, "-c",
                                "print(any('libnccl.so.2' in line for line in open('/proc/self/maps')))")
        self.assertEqual(said.strip(), "True")

    def test_serve_a_program_that_loads_the_drop_in_by_path(self):
        self.run_command(sys.executable, "-c", TWO_RANKS, DROP_IN)

    def test_name_the_sibling_that_is_missing(self):
        os.makedirs(os.path.join(self.work, "bin"))
        alone = shutil.copy(STARLING, os.path.join(self.work, "bin"))
        self.assertIn(os.path.join(self.work, "lib", "libstarling.so"), self.run_command(alone, "modules", code=1))
        self.assertIn(os.path.join(self.work, "lib", "starling", "nccl", "libnccl.so.2"),
                      self.run_command(alone, "run", "--", "true", code=2))


if __name__ == "__main__":
    unittest.main()
