#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-format 14 over the whole tree, and the licence line on top of every source. Skipped without clang-format."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import tempfile

import tree

LICENCE = "SPDX-License-Identifier: Apache-2.0"


def formatter():
    return shutil.which("clang-format-14") or shutil.which("clang-format")


def badly_formatted(root, paths):
    if not paths:
        return []
    done = subprocess.run([formatter(), "--dry-run", "-Werror", "--style=file", *paths], cwd=root, capture_output=True,
                          text=True)
    return sorted(set(re.findall(r"^(.*?):\d+:\d+: error", done.stderr, re.M))) if done.returncode else []


def check(root, _args):
    paths = tree.files(root)
    problems = [f"{path}: line 1 is not `// {LICENCE}`" for path in tree.files(root, (*tree.SOURCE_SUFFIXES, ".py", ".sh"))
                if LICENCE not in "".join(tree.read(root, path).splitlines(True)[:2])]
    if not formatter():
        print("clang-format is not installed (./run lint installs it); formatting not checked")
        return problems or None
    batches = [paths[i::8] for i in range(8)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for bad in pool.map(lambda batch: badly_formatted(root, batch), batches):
            problems += [f"{path}: run clang-format -i {path}" for path in bad]
    return sorted(problems)


def self_test():
    if not formatter():
        return
    with tempfile.TemporaryDirectory() as root:
        for name, text in (("good.cc", f"// {LICENCE}\nint F();\n"), ("bad.cc", "int   F( );\n")):
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        problems = check(root, None)
        assert len(problems) == 2 and all(problem.startswith("bad.cc") for problem in problems), problems


if __name__ == "__main__":
    tree.main(check, self_test)
