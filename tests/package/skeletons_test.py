#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every skeleton that is installed is a project of its own: copied anywhere it builds, passes its tests and loads."""
import os
import unittest

from installed import EXAMPLES, InstalledTest, PREFIX, STARLING


class Skeletons(InstalledTest):
    def check(self, names, modules):
        listed = self.run_command(STARLING, "modules",
                                  STARLING_MODULE_PATH=os.path.join(PREFIX, "lib", "starling") + ":" + modules)
        for name in names:
            self.assertIn(os.path.join(modules, name + ".so"), listed)
            self.run_command(STARLING, "conform", "--strict", os.path.join(modules, name + ".so"))

    def test_one_builds_as_a_project_of_its_own(self):
        modules = self.build(self.copy_example("null-algorithm"))
        self.run_command("ctest", "--test-dir", os.path.join(self.work, "build"), "--output-on-failure", "--no-tests=error")
        self.check(["null-algorithm"], modules)

    def test_all_build_as_parts_of_a_project(self):
        names = sorted(name for name in os.listdir(EXAMPLES) if name.startswith("null-"))
        self.assertGreaterEqual(len(names), 6)
        with open(os.path.join(self.work, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(all LANGUAGES C CXX)\nfind_package(Starling REQUIRED)\n")
            for name in names:
                self.copy_example(name)
                file.write(f"add_subdirectory({name})\n")
        self.check(names, self.build(self.work, "-DSL_BUILD_TESTS=OFF"))


if __name__ == "__main__":
    unittest.main()
