#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lies where after an installation, and that nothing of it remembers the tree it was built in."""
import glob
import os
import unittest

from installed import InstalledTest, PREFIX


class Layout(InstalledTest):
    def test_holds_what_the_pages_promise(self):
        for path in ("bin/starling", "lib/libstarling.so", "lib/starling/algo-ring.so", "lib/starling/nccl/libnccl.so.2",
                     "lib/libstarling_sdk.a", "lib/cmake/Starling/StarlingConfig.cmake", "lib/pkgconfig/starling.pc",
                     "include/starling/sl_module.h", "include/starling/sdk/module.h", "include/starling/nccl/nccl.h",
                     "share/starling/configs/links.toml", "share/starling/examples/null-algorithm/module.cc",
                     "share/doc/starling/README.md", "share/doc/starling/docs/operator.md"):
            with self.subTest(path=path):
                self.assertTrue(os.path.exists(os.path.join(PREFIX, path)), path + " is missing")

    def test_keeps_skeletons_out_of_the_folder_that_is_loaded(self):
        self.assertEqual(glob.glob(os.path.join(PREFIX, "lib", "starling", "null-*")), [])

    def test_shadows_no_other_nccl(self):
        self.assertEqual(glob.glob(os.path.join(PREFIX, "lib", "libnccl*")), [])

    def test_remembers_no_path_of_its_making(self):
        staged = PREFIX + ".staged"
        for pattern in ("lib/cmake/Starling/*", "lib/pkgconfig/*"):
            for path in glob.glob(os.path.join(PREFIX, pattern)):
                with open(path, encoding="utf-8") as file:
                    self.assertNotIn(os.path.dirname(staged), file.read(), path)

    def test_describes_itself_to_pkg_config(self):
        flags = self.run_command("pkg-config", "--cflags", "--libs", "starling-sdk",
                                 PKG_CONFIG_PATH=os.path.join(PREFIX, "lib", "pkgconfig"))
        includes = [os.path.realpath(flag[2:]) for flag in flags.split() if flag.startswith("-I")]
        self.assertIn(os.path.realpath(os.path.join(PREFIX, "include", "starling")), includes)
        self.assertIn("-lstarling_sdk", flags)


if __name__ == "__main__":
    unittest.main()
