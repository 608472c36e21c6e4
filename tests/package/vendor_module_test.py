#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/vendor-module, built by CMake against the installed headers and sdk, serves in the core that is there."""
import os
import unittest

from installed import EXAMPLES, InstalledTest

MAX_LINES = 150  # what the example promises: an all-reduce of one's own is not much


class VendorModule(InstalledTest):
    def test_builds_and_serves(self):
        modules = self.build(os.path.join(EXAMPLES, "vendor-module"))
        self.check_algorithm(os.path.join(modules, "vendor-module.so"), "two-rings")

    def test_is_short(self):
        with open(os.path.join(EXAMPLES, "vendor-module", "module.cc"), encoding="utf-8") as file:
            self.assertLessEqual(len(file.readlines()), MAX_LINES)


if __name__ == "__main__":
    unittest.main()
