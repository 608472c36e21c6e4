# SPDX-License-Identifier: Apache-2.0
"""Plans written here, read by algo-planfile and run by the engine: every result is checked by `starling bench`."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import starling_plans
from starling_plans import COLLECTIVES, Plan, StarlingError, parse, save, send, verify
from starling_plans.command import profile_of

from .plans import direct

STARLING = os.environ["STARLING"]


class ServeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="starling-plans.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, plan):
        """A profile in which the plan serves."""
        path = os.path.join(self.folder, plan.name + ".plan")
        save(plan, path)
        profile = os.path.join(self.folder, plan.name + ".toml")
        with open(profile, "w", encoding="utf-8") as file:
            file.write(profile_of(path))
        return profile

    def starling(self, *arguments):
        return subprocess.run([STARLING, *arguments], timeout=60, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)

    def test_every_collective_has_right_results(self):
        for collective in COLLECTIVES:
            profile = self.write(direct(collective, 3))
            name = collective.replace("all_to_all", "alltoall")  # as nccl-tests calls it
            with self.subTest(collective):
                explained = self.starling("explain", name, "1K", "--ranks", "3", "--profile", profile)
                self.assertIn("chosen: planfile, pinned", explained.stdout)
                table = self.starling("bench", name, "--ranks", "3", "-b", "12", "-e", "192K", "-f", "16", "-n", "3", "-w", "1",
                                      "-r", "1", "--profile", profile)
                self.assertEqual(table.returncode, 0, table.stdout)
                self.assertIn("Out of bounds values : 0 OK", table.stdout)

    def test_the_page_shows_a_plan_that_is_right(self):
        with open(os.path.join(os.environ["SL_TEST_SOURCE_DIR"], "docs", "plan-file.md"), encoding="utf-8") as file:
            example = re.search(r"^```\n(starling-plan 1.*?)^```", file.read(), re.M | re.S)
        self.assertIsNotNone(example)
        profile = self.write(parse(example[1]))
        table = self.starling("bench", "all_reduce", "--ranks", "2", "-b", "8", "-e", "64K", "-f", "16", "--profile", profile)
        self.assertIn("Out of bounds values : 0 OK", table.stdout)

    def test_a_file_that_is_wrong_is_named_with_its_line(self):
        profile = self.write(direct("all_reduce", 2))
        path = os.path.join(self.folder, "direct-all_reduce.plan")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("wait 1 of send[0]", "wait 1 of send[9]"))
        said = self.starling("explain", "all_reduce", "1K", "--ranks", "2", "--profile", profile)
        self.assertNotEqual(said.returncode, 0)
        self.assertRegex(said.stdout, r"direct-all_reduce\.plan:\d+: block 9 is not there")

    def test_a_plan_for_other_ranks_steps_aside_and_says_so(self):
        profile = self.write(direct("all_reduce", 3))
        said = self.starling("explain", "all_reduce", "1K", "--ranks", "2", "--profile", profile)
        self.assertEqual(said.returncode, 0, said.stdout)
        self.assertIn("plan direct-all_reduce is for 3 ranks", said.stdout)

    def test_verify_proves_a_plan_that_is_right_and_shows_what_is_wrong_with_another(self):
        for collective in COLLECTIVES:
            self.write(direct(collective, 3))
            path = os.path.join(self.folder, f"direct-{collective}.plan")
            self.assertIn("proved", verify(path, starling=STARLING))
        path = os.path.join(self.folder, "direct-gather.plan")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("copy recv[2] = inbox[2]", "copy recv[1] = inbox[2]"))
        with self.assertRaisesRegex(StarlingError, r"(?s)rank 0 lane 0 step \d+.*recv"):
            verify(path, starling=STARLING)

    def test_verify_ends_when_its_program_does_not(self):
        path = os.path.join(self.folder, "a.plan")
        save(direct("all_gather", 2), path)
        program = os.path.join(self.folder, "slow")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec sleep 60\n")
        os.chmod(program, 0o755)
        with self.assertRaisesRegex(StarlingError, "slow verify .* did not end within 0.2 s"):
            verify(path, starling=program, timeout_s=0.2)

    def test_verify_says_which_program_is_missing(self):
        path = os.path.join(self.folder, "a.plan")
        plan = Plan("a", "all_gather", 2)
        plan.lane(0).put(1, source=send[0])
        save(plan, path)
        with self.assertRaisesRegex(StarlingError, "there is no program no-such-starling"):
            verify(path, starling="no-such-starling")

    def test_verify_finds_the_program_beside_the_package(self):
        path = os.path.join(self.folder, "a.plan")
        save(direct("all_gather", 2), path)
        package = os.path.dirname(starling_plans.__file__)
        environment = {**os.environ, "PATH": "/nonexistent"}
        for packages, programs in (("wheel", "wheel/starling/bin"), ("opt/lib/python3/dist-packages", "opt/bin")):
            packages, programs = os.path.join(self.folder, packages), os.path.join(self.folder, programs)
            shutil.copytree(package, os.path.join(packages, "starling_plans"))
            os.makedirs(programs)
            with open(os.path.join(programs, "starling"), "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec {STARLING} "$@"\n')
            os.chmod(os.path.join(programs, "starling"), 0o755)
            command = [sys.executable, "-m", "starling_plans", "verify", path]
            result = subprocess.run(command, env={**environment, "PYTHONPATH": packages}, cwd=self.folder, text=True,
                                    timeout=60, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual(result.returncode, 0, result.stdout)


if __name__ == "__main__":
    unittest.main()
