#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/get_nvcc.sh makes a toolkit of wheels, which CMake finds, or of nothing else; a folder of small wheels stands for
PyPI. Exit code: 0 good, 1 failure, 77 skipped, with the reason."""
import hashlib
import os
import shutil
import subprocess
import sys
import unittest
import zipfile

SOURCE = os.environ["SL_TEST_SOURCE_DIR"]
WORK = os.environ["SL_WORK"]
SCRIPT = os.path.join(SOURCE, "scripts", "get_nvcc.sh")
# Says what it was asked for.
NVCC = '#!/bin/sh\necho "nvcc $*"\n'
# Where a toolkit of this machine would be found first is left out.
FINDS = """cmake_minimum_required(VERSION 3.25)
project(finds LANGUAGES NONE)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
include(SlCuda)
sl_cuda_images(finds sources)
"""


def write_wheel(folder, name, files):
    """A wheel of version 1.0 that installs `files`, all executable; the line of a list that pins it."""
    info = f"{name}-1.0.dist-info"
    files = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    wheel = os.path.join(folder, f"{name}-1.0-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
    with open(wheel, "rb") as file:
        return f"{name}==1.0 --hash=sha256:{hashlib.sha256(file.read()).hexdigest()}\n"


class GetNvcc(unittest.TestCase):
    def setUp(self):
        self.work = os.path.join(WORK, self.id().rsplit(".", 1)[-1])
        shutil.rmtree(self.work, ignore_errors=True)
        self.wheels = os.path.join(self.work, "wheels")
        os.makedirs(self.wheels)
        self.list = os.path.join(self.work, "list.txt")
        self.folder = os.path.join(self.work, "build", "cuda")
        self.pin(write_wheel(self.wheels, "compiler", {"nvidia/cu13/bin/nvcc": NVCC}) +
                 write_wheel(self.wheels, "headers", {"nvidia/cu13/include/cuda_runtime.h": "/* */\n"}))

    def pin(self, text):
        with open(self.list, "w", encoding="utf-8") as file:
            file.write(text)

    def get(self, code=0):
        """What the script says, both streams, on ending with `code`."""
        done = subprocess.run([SCRIPT, self.folder, self.wheels, self.list], timeout=60, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def test_makes_one_toolkit_of_all_wheels(self):
        self.assertEqual(self.get(), "")
        said = subprocess.run([os.path.join(self.folder, "bin", "nvcc"), "--version"], capture_output=True, check=True)
        self.assertEqual(said.stdout, b"nvcc --version\n")
        self.assertTrue(os.path.exists(os.path.join(self.folder, "include", "cuda_runtime.h")))
        self.assertEqual(os.listdir(os.path.dirname(self.folder)), ["cuda"])

    def test_leaves_a_toolkit_of_the_same_list_alone_and_replaces_another(self):
        self.get()
        before = os.stat(self.folder).st_ino
        shutil.rmtree(self.wheels)
        self.get()
        self.assertEqual(os.stat(self.folder).st_ino, before)
        os.makedirs(self.wheels)
        self.pin(write_wheel(self.wheels, "newer", {"nvidia/cu14/bin/nvcc": NVCC}))
        self.get()
        self.assertFalse(os.path.exists(os.path.join(self.folder, "include")))

    def test_refuses_a_wheel_with_another_hash_and_keeps_what_was_there(self):
        self.get()
        self.pin("compiler==1.0 --hash=sha256:" + "0" * 64 + "\n")
        self.assertIn("THESE PACKAGES DO NOT MATCH THE HASHES", self.get(code=1))
        self.assertTrue(os.path.exists(os.path.join(self.folder, "bin", "nvcc")))

    def test_names_the_other_ways_when_wheels_cannot_be_had(self):
        for wheels in (os.path.join(self.work, "no-such-folder"), os.path.dirname(SCRIPT)):
            self.wheels = wheels
            said = self.get(code=1)
            for way in (wheels, "CUDA_HOME=", "./run build --cuda WHEELS", "pip download"):
                self.assertIn(way, said)
        self.assertFalse(os.path.exists(self.folder))

    def test_refuses_wheels_without_a_compiler(self):
        self.pin(write_wheel(self.wheels, "headers", {"nvidia/cu13/include/cuda_runtime.h": "/* */\n"}))
        self.assertIn("hold no nvidia/*/bin/nvcc", self.get(code=1))

    def test_makes_what_cmake_finds(self):
        self.get()
        with open(os.path.join(self.work, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(FINDS)
        build = os.path.join(self.work, "build")
        subprocess.run([os.environ["CMAKE"], "-S", self.work, "-B", build, "-DCMAKE_MODULE_PATH=" + os.path.join(SOURCE, "cmake")],
                       env={**os.environ, "CUDA_HOME": ""}, capture_output=True, check=True, timeout=60)
        with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
            self.assertIn(f"SL_NVCC:FILEPATH={self.folder}/bin/nvcc\n", file.read())


if __name__ == "__main__":
    if subprocess.run(["python3", "-c", "import pip"], capture_output=True, check=False).returncode:
        print("skipped: python3 has no pip (python3-pip)")
        sys.exit(77)
    unittest.main()
