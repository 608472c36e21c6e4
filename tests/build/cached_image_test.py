#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When scripts/cached_image.py compiles, and when it takes what it has kept. A script stands for nvcc: its image is the text
of one header, and it counts how often it compiles."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "cached_image.py")
NVCC = """#!/bin/sh
cd "$(dirname "$0")"
case " $* " in
*" --version "*) echo 1; exit ;;
*" -M "*) echo "k.o: $PWD/k.cu $PWD/a.h"; exit ;;
esac
echo compiled >> count
[ -z "$EDITS" ] || echo edited > a.h
[ -z "$FAILS" ] || exit 3
while [ "$1" != -o ]; do shift; done
cp a.h "$2"
"""


class CachedImage(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.write("nvcc", NVCC)
        os.chmod(self.path("nvcc"), 0o755)
        self.write("k.cu", '#include "a.h"\n')
        self.write("a.h", "first\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def compile(self, *flags, **variables):
        """Returns the exit code."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NVCC_", "CCACHE_"))}
        command = [sys.executable, "-B", SCRIPT, self.path("nvcc"), "-fatbin", *flags, "-MD", "-MF", self.path("k.d"), "-o",
                   self.path("image"), self.path("k.cu")]
        return subprocess.run(command, env={**environment, "XDG_CACHE_HOME": self.path("cache"), **variables}, timeout=60,
                              check=False).returncode

    def compiled(self):
        return len(self.read("count").splitlines())

    def test_takes_what_it_has(self):
        self.assertEqual(self.compile(), 0)
        os.unlink(self.path("image"))
        self.assertEqual(self.compile(), 0)
        self.assertEqual((self.compiled(), self.read("image")), (1, "first\n"))
        self.assertIn(self.path("a.h"), self.read("k.d"))

    def test_compiles_anew_when_anything_differs(self):
        self.compile()
        self.compile("-O1")
        self.compile(NVCC_APPEND_FLAGS="-G")
        self.compile(CCACHE_DISABLE="1")
        self.write("a.h", "second\n")
        self.compile()
        self.assertEqual((self.compiled(), self.read("image")), (5, "second\n"))

    def test_keeps_nothing_of_files_that_were_edited_meanwhile(self):
        self.assertEqual(self.compile(EDITS="1"), 0)
        self.write("a.h", "first\n")
        self.compile()
        self.assertEqual((self.compiled(), self.read("image")), (2, "first\n"))

    def test_keeps_nothing_that_failed(self):
        self.assertEqual(self.compile(FAILS="1"), 3)
        self.assertEqual(self.compile(), 0)
        self.assertEqual(self.compiled(), 2)

    def test_compiles_where_the_cache_cannot_be_used(self):
        self.write("cache", "a file where the folder should be\n")
        self.assertEqual(self.compile(), 0)
        self.assertEqual(self.read("image"), "first\n")


if __name__ == "__main__":
    unittest.main()
