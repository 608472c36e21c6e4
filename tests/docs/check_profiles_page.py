#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/profiles.md is what `starling profile reference` prints. A module that is not built here may be on the page."""
import argparse
import difflib
import re
import subprocess
import sys


def sections(text):
    """The page up to the modules, and one entry a module."""
    head, *modules = re.split(r"(?m)^### ", text)
    return head, {module.split("\n", 1)[0]: module for module in modules}


def problems_of(page, printed):
    page_head, page_modules = sections(page)
    head, modules = sections(printed)
    pairs = [("the kernel's keys", page_head, head)]
    pairs += [(name, page_modules.get(name, ""), text) for name, text in modules.items()]
    found = []
    for name, old, new in pairs:
        if old.strip() != new.strip():
            diff = difflib.unified_diff(old.splitlines(), new.splitlines(), "docs/profiles.md", "printed", lineterm="", n=0)
            found.append(f"docs/profiles.md is not current: {name}\n" + "\n".join(diff))
    return found


def self_test():
    page = "head\n### a\nx\n### b\ny\n"
    assert not problems_of(page, page)
    assert not problems_of(page, "head\n### b\ny\n"), "a module that is not built"
    assert problems_of(page, "head\n### a\nz\n")
    assert problems_of(page, page + "### c\nnew\n")
    assert problems_of(page, page.replace("head", "neck"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?")
    parser.add_argument("starling", nargs="?")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        self_test()
        return 0
    printed = subprocess.run([args.starling, "profile", "reference"], capture_output=True, text=True, check=True).stdout
    with open(args.page, encoding="utf-8") as file:
        found = problems_of(file.read(), printed)
    for problem in found:
        print(problem)
    if found:
        print("run: build/bin/starling profile reference > docs/profiles.md")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
