#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links of Markdown pages lead to files of the tree, and their anchors to headings; files that pages name in code
are there: paths that begin in a folder of the tree or of the page, and sources by their names alone."""
import fnmatch
import os
import re
import tempfile

import tree

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|``[^`]+``|`[^`\n]*`", re.M | re.S)
WORD = re.compile(r"[^\s=,;:()'\"`|]+")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
SOURCE = re.compile(r"[\w.*-]+\.(?:h|cc|cu|cuh)")
FOREIGN = {"cuda.h"}
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.M)


def anchors(text):
    """The anchors that headings get: lower case, blanks to dashes, the rest of the punctuation dropped."""
    headings = HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in plain}


def check_page(root, path, text):
    problems = []
    # Blanked, not removed: lines keep their numbers.
    prose = CODE.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    for match in LINK.finditer(prose):
        target, _, anchor = match.group(1).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        place = f"{path}:{prose.count(chr(10), 0, match.start()) + 1}"
        file = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(os.path.join(root, file)):
            problems.append(f"{place}: {match.group(1)} leads nowhere")
        elif anchor and file.endswith(".md") and anchor not in anchors(tree.read(root, file)):
            problems.append(f"{place}: {file} has no heading #{anchor}")
    return problems


class Names:
    """Which names of files in code are those of a file or folder."""

    def __init__(self, files):
        # Each path by all its ends, since a page may leave out where its subject lies.
        self.ends, self.folders = set(), set()
        for path in files:
            parts = path.split("/")
            self.ends.update("/".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
            self.folders.update("/".join(parts[:j]) for j in range(1, len(parts)))

    def is_meant(self, page, word):
        """Whether the word can only be meant for a file of ours. What a reader makes is called my-…, tests are called X.*"""
        if not PATH.fullmatch(word) or "my-" in word or word.endswith(".*") or word in FOREIGN:
            return False
        first, slash, rest = word.partition("/")
        if slash and rest:
            return first in self.folders or os.path.join(os.path.dirname(page), first) in self.folders
        return SOURCE.fullmatch(word) is not None

    def is_there(self, word):
        word = word.rstrip("/.")
        return word in self.ends or ("*" in word and bool(fnmatch.filter(self.ends, word)))

    def check_page(self, page, text):
        problems = []
        for code in CODE.finditer(text):
            for word in WORD.finditer(code.group(0)):
                if self.is_meant(page, word.group(0)) and not self.is_there(word.group(0)):
                    line = text.count("\n", 0, code.start() + word.start()) + 1
                    problems.append(f"{page}:{line}: {word.group(0)} is the name of no file")
        return problems


def check(root, _args):
    names = Names(tree.files(root, ("",)))
    problems = []
    for path in tree.files(root, (".md",)):
        text = tree.read(root, path)
        problems += check_page(root, path, text)
        if path != "CHANGELOG.md":  # tells of what was
            problems += names.check_page(path, text)
    return problems


def self_test():
    with tempfile.TemporaryDirectory() as root:
        page = "# A `b` heading's end\n[good](a.md#a-b-headings-end) [web](https://x.org/y) `[code](none.md)`\n"
        with open(os.path.join(root, "a.md"), "w", encoding="utf-8") as file:
            file.write(page)
        assert not check_page(root, "a.md", page)
        assert check_page(root, "a.md", "\n[bad](none.md)") == ["a.md:2: none.md leads nowhere"]
        assert check_page(root, "a.md", "[bad](a.md#none)") == ["a.md:1: a.md has no heading #none"]
        assert check_page(root, "a.md", "[bad](#none)")
    names = Names(["kernel/link/link.h", "modules/a/README.md", "modules/a/tests/b_test.cc"])
    good = ("`kernel/link/`, `link.h`, `link/link.h`, `tests/b_test.cc`, `modules/*/README.md`, `modules/my-b`, `build/none.h`, "
            "a/none, `kernel/Link.*`, `none/link`, `program.c`")
    assert not names.check_page("modules/a/README.md", good)
    assert names.check_page("docs/a.md", "\n`kernel/none.h x`") == ["docs/a.md:2: kernel/none.h is the name of no file"]
    assert names.check_page("docs/a.md", "```\nlink  links.h\n```") == ["docs/a.md:2: links.h is the name of no file"]
    assert names.check_page("modules/a/README.md", "`tests/c_test.cc`")


if __name__ == "__main__":
    tree.main(check, self_test)
