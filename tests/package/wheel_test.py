#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python wheel: made twice with the same bytes, installed without a network into a fresh environment, and then the
command, the drop-in and the profiles work from there. Exit code: 0 good, 1 failure, 77 skipped, with the reason."""
import base64
import csv
import hashlib
import io
import os
import shutil
import subprocess
import sys
import unittest
import zipfile

from installed import ENVIRONMENT, InstalledTest, WORK
from programs_test import TWO_RANKS

MAKE_WHEEL = os.path.join(os.environ["SL_TEST_SOURCE_DIR"], "scripts", "make_wheel.py")
VENV = os.path.join(WORK, "venv")
PYTHON = os.path.join(VENV, "bin", "python")
STARLING = os.path.join(VENV, "bin", "starling")
# What a program under `starling run` sees: is the drop-in of this wheel in it, and which profile was it given.
LOOK = """
import os, starling
assert any(starling.library() in line for line in open("/proc/self/maps")), "the drop-in is not in this process"
print("profile", os.environ.get("STARLING_PROFILE"))
"""


def make_wheel(folder):
    out = os.path.join(WORK, folder)
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run([sys.executable, "-B", MAKE_WHEEL, os.environ["SL_TEST_BUILD_DIR"], out], text=True, check=True,
                          env={**ENVIRONMENT, "SOURCE_DATE_EPOCH": "1700000000"}, stdout=subprocess.PIPE)
    return done.stdout.strip()


def setUpModule():
    """One wheel and one environment for all tests."""
    global WHEEL  # pylint: disable=global-statement
    WHEEL = make_wheel("first")
    shutil.rmtree(VENV, ignore_errors=True)
    for command in ([sys.executable, "-m", "venv", VENV],
                    [PYTHON, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", WHEEL]):
        subprocess.run(command, check=True, env=ENVIRONMENT, cwd=WORK, timeout=200)


class Wheel(InstalledTest):
    def test_is_the_same_when_it_is_made_again(self):
        with open(WHEEL, "rb") as first, open(make_wheel("second"), "rb") as second:
            self.assertEqual(hashlib.sha256(first.read()).digest(), hashlib.sha256(second.read()).digest())

    def test_is_not_made_of_what_is_no_build_and_says_so(self):
        said = self.run_command(sys.executable, "-B", MAKE_WHEEL, self.work, "out", code=1)
        self.assertIn(f"make_wheel: {self.work} is no build folder: it has no CMakeCache.txt", said)
        with open(os.path.join(self.work, "CMakeCache.txt"), "w", encoding="utf-8"):
            said = self.run_command(sys.executable, "-B", MAKE_WHEEL, self.work, "out", code=1)
        self.assertRegex(said, "make_wheel: cmake --install .* ended with 1: .*cmake_install.cmake")
        self.assertNotIn("Traceback", said)

    def test_records_every_file_of_its_own(self):
        with zipfile.ZipFile(WHEEL) as archive:
            record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
            rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
            self.assertEqual(sorted(rows), sorted(archive.namelist()))
            self.assertIn("starling/lib/starling/algo-ring.so", rows)
            for name, (digest, size) in rows.items():
                if name != record:
                    data = archive.read(name)
                    self.assertEqual(int(size), len(data), name)
                    self.assertEqual(base64.urlsafe_b64decode(digest.removeprefix("sha256=") + "=")[:32],
                                     hashlib.sha256(data).digest(), name)

    def test_runs_on_the_oldest_system_that_is_promised(self):
        self.assertRegex(os.path.basename(WHEEL), r"^starling-[\d.]+-py3-none-manylinux_2_34_(x86_64|aarch64)\.whl$")

    def test_installs_a_command_that_measures(self):
        table = self.run_command(STARLING, "bench", "all_reduce", "--ranks", "2", "-b", "8", "-e", "64K", "-f", "16", "-n", "3")
        self.assertIn("Out of bounds values : 0 OK", table)
        self.assertEqual(self.run_command(PYTHON, "-m", "starling", "modules"), self.run_command(STARLING, "modules"))

    def test_runs_programs_with_its_drop_in_and_a_profile(self):
        said = self.run_command(STARLING, "run", "--profile", "reproducible", "--", PYTHON, "-c", LOOK)
        self.assertEqual(said, "profile reproducible\n")

    def test_says_where_its_profiles_are_and_when_a_name_is_none(self):
        self.assertIn("# profile links", self.run_command(STARLING, "profile", "show", "links"))
        self.assertIn("there is no profile none-such", self.run_command(STARLING, "profile", "show", "none-such", code=2))

    def test_says_when_the_drop_in_does_not_take_effect(self):
        source = os.path.join(self.work, "still.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("int main(void) { return 0; }\n")
        self.run_command(os.environ["CC"], "-static", "-o", "still", source)
        self.assertIn("does not run on Starling: it is statically linked", self.run_command(STARLING, "run", "--", "./still"))

    def test_tells_programs_where_the_drop_in_is(self):
        library = self.run_command(PYTHON, "-c", "import starling; print(starling.library())").strip()
        self.assertTrue(os.path.realpath(library).startswith(os.path.realpath(VENV)), library)
        self.run_command(PYTHON, "-c", TWO_RANKS, library)

    def test_brings_the_package_that_writes_plans(self):
        self.run_command(PYTHON, "-c", "import starling_plans")


def missing():
    """What this machine lacks, in words, or nothing."""
    for module, package in (("venv", "python3-venv"), ("ensurepip", "python3-venv")):
        if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            return f"{sys.executable} has no {module} ({package})"
    return None if shutil.which("readelf") else "there is no readelf (binutils)"


if __name__ == "__main__":
    if missing():
        print(f"skipped: {missing()}")
        sys.exit(77)
    unittest.main()
