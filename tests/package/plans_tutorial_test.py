#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/plans-tutorial.md word for word: from an idea to a measured table, with an installation alone."""
import os
import unittest

import page
from installed import InstalledTest, PREFIX

DOCS = os.path.join(PREFIX, "share", "doc", "starling", "docs")


class PlansTutorial(InstalledTest):
    def test_leads_from_an_idea_to_a_measured_table(self):
        with open(os.path.join(DOCS, "plans-tutorial.md"), encoding="utf-8") as file:
            script = page.script(file.read())
        said = self.run_command("bash", "-c", script, PATH=os.path.join(PREFIX, "bin") + ":" + os.environ["PATH"],
                                PYTHONPATH=os.path.join(PREFIX, "lib", "python3", "dist-packages"))
        self.assertIn("these steps wait for ever", said)
        self.assertRegex(said, r"planfile +all_reduce +4 .* proved")
        self.assertIn("wrong value at rank 0 lane 0 step 14", said)
        self.assertIn("chosen: planfile, pinned", said)
        self.assertEqual(said.count("Out of bounds values : 0 OK"), 3)

        with open(os.path.join(self.work, "butterfly.svg"), encoding="utf-8") as drawn:
            with open(os.path.join(DOCS, "images", "butterfly.svg"), encoding="utf-8") as shown:
                self.assertEqual(drawn.read(), shown.read(), "docs/images/butterfly.svg is not what the tutorial draws")


if __name__ == "__main__":
    unittest.main()
