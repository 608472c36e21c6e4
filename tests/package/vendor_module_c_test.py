#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/vendor-module-c, built by the one command of its README, serves in the core that is there."""
import os
import re
import unittest

from installed import InstalledTest, PREFIX


class VendorModuleC(InstalledTest):
    def test_builds_by_its_readme_and_serves(self):
        source = self.copy_example("vendor-module-c")
        with open(os.path.join(source, "README.md"), encoding="utf-8") as file:
            command = re.search(r"^```\n(cc .*?)^```", file.read(), re.M | re.S).group(1)
        self.run_command("sh", "-ec", f"cd {source}; {command}", PKG_CONFIG_PATH=os.path.join(PREFIX, "lib", "pkgconfig"))
        module = os.path.join(source, "vendor-module-c.so")
        symbols = self.run_command("nm", "-D", "--defined-only", module)
        self.assertEqual([line.split()[-1] for line in symbols.splitlines()], ["sl_module_query"])
        self.check_algorithm(module, "star")


if __name__ == "__main__":
    unittest.main()
