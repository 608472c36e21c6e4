#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/generate_sbom.py lists what this build is made of, and every part with a version and a licence."""
import json
import os
import re
import shutil
import sys
import unittest

from installed import InstalledTest

SOURCE = os.environ["SL_TEST_SOURCE_DIR"]


@unittest.skipUnless(shutil.which("dpkg-query"), "not a Debian system")
class Sbom(InstalledTest):
    def test_lists_what_is_compiled_in_and_what_is_loaded(self):
        path = os.path.join(self.work, "sbom.json")
        self.run_command(sys.executable, "-B", os.path.join(SOURCE, "scripts", "generate_sbom.py"),
                         os.environ["SL_TEST_BUILD_DIR"], path, SOURCE_DATE_EPOCH="86400")
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        packages = {package["SPDXID"]: package for package in document["packages"]}
        linked = {kind: {packages[relation["relatedSpdxElement"]]["name"] for relation in document["relationships"]
                         if relation["relationshipType"] == kind} for kind in ("STATIC_LINK", "DYNAMIC_LINK")}
        self.assertLessEqual({"libhwy-dev", "libspdlog-dev", "libfmt-dev", "libtomlplusplus-dev", "libcli11-dev",
                              "nlohmann-json3-dev"}, linked["STATIC_LINK"])
        self.assertEqual(linked["DYNAMIC_LINK"], {"libc6", "libgcc-s1"})
        for package in document["packages"]:
            self.assertTrue(package["versionInfo"], package)
        # Of the CUDA Toolkit what the GPU images of this build hold, or a word that there are none.
        with open(os.path.join(os.environ["SL_TEST_BUILD_DIR"], "CMakeCache.txt"), encoding="utf-8") as file:
            compiler = re.search(r"^SL_NVCC:[A-Z]+=(/.*)$", file.read(), re.M)
        self.assertEqual("cuda-toolkit" in linked["STATIC_LINK"], bool(compiler))
        self.assertEqual("nothing of the CUDA Toolkit" in document["packages"][0].get("comment", ""), not compiler)
        shipped = [package for package in document["packages"] if package["name"] != "libgtest-dev"]
        self.assertEqual([package["name"] for package in shipped if package["licenseDeclared"] == "NOASSERTION"], [])
        self.assertEqual(document["creationInfo"]["created"], "1970-01-02T00:00:00Z")


if __name__ == "__main__":
    unittest.main()
