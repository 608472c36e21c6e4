#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links of Markdown pages lead to files of the tree, and their anchors to headings."""
import os
import re
import tempfile

import tree

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|``[^`]+``|`[^`\n]*`", re.M | re.S)
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


def check(root, _args):
    return [problem for path in tree.files(root, (".md",)) for problem in check_page(root, path, tree.read(root, path))]


def self_test():
    with tempfile.TemporaryDirectory() as root:
        page = "# A `b` heading's end\n[good](a.md#a-b-headings-end) [web](https://x.org/y) `[code](none.md)`\n"
        with open(os.path.join(root, "a.md"), "w", encoding="utf-8") as file:
            file.write(page)
        assert not check_page(root, "a.md", page)
        assert check_page(root, "a.md", "\n[bad](none.md)") == ["a.md:2: none.md leads nowhere"]
        assert check_page(root, "a.md", "[bad](a.md#none)") == ["a.md:1: a.md has no heading #none"]
        assert check_page(root, "a.md", "[bad](#none)")


if __name__ == "__main__":
    tree.main(check, self_test)
