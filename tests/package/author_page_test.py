#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/module-author.md word for word: from a copied skeleton to a module that conforms, with an installation alone."""
import os
import unittest

import page
from installed import InstalledTest, PREFIX


class AuthorPage(InstalledTest):
    def test_leads_from_a_skeleton_to_a_module_that_conforms(self):
        with open(os.path.join(PREFIX, "share", "doc", "starling", "docs", "module-author.md"), encoding="utf-8") as file:
            script = page.script(file.read())
        said = self.run_command("bash", "-c", script, PATH=os.path.join(PREFIX, "bin") + ":" + os.environ["PATH"],
                                CMAKE_PREFIX_PATH=PREFIX)
        self.assertIn("chosen: star, pinned", said)
        self.assertIn("Out of bounds values : 0 OK", said)

    def test_every_edit_of_the_page_is_one(self):
        """An edit that the script would leave out could be anything."""
        with open(os.path.join(PREFIX, "share", "doc", "starling", "docs", "module-author.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(page.script(text).count("END-OF-BLOCK'"), text.count("```cpp") + text.count("```toml"))


if __name__ == "__main__":
    unittest.main()
