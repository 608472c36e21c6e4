# SPDX-License-Identifier: Apache-2.0
"""A page of docs/ as a script: what a reader types and edits, in the order of the page, word for word.

A block without a language is shell. A block of code is an edit, which the sentence before it names:
    replace the function `NAME` in `FILE` by:      put this function behind `NAME` in `FILE`:      save this as `FILE`:
A shell block after a sentence that ends with "which must fail:" must fail, as a whole. Blocks marked `console` (commands of an administrator) and those that no such sentence announces are left out.
"""
import re
import sys

_BLOCK = re.compile(r"(?P<before>(?:[^\n]+\n)*)\n*```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_REPLACE = re.compile(r"replace the function `([^`]+)` in `([^`]+)` by:$", re.I)
_BEHIND = re.compile(r"put this function behind `([^`]+)` in `([^`]+)`:$", re.I)
_SAVE = re.compile(r"save this as `([^`]+)`:$", re.I)
_EDITOR = __file__


def script(page):
    """The page's text as a bash script."""
    lines = ["set -euo pipefail"]
    for match in _BLOCK.finditer(page):
        before = " ".join(match["before"].split())
        if not match["language"]:
            fails = before.endswith("which must fail:")
            lines.append(f"if ({match['text']}); then echo 'this must fail'; exit 1; fi" if fails else match["text"])
            continue
        for kind, pattern in (("replace", _REPLACE), ("behind", _BEHIND), ("save", _SAVE)):
            edit = pattern.search(before)
            if edit:
                words = " ".join(f"'{word}'" for word in (kind, *reversed(edit.groups())))
                lines.append(f"python3 '{_EDITOR}' {words} <<'END-OF-BLOCK'\n{match['text']}END-OF-BLOCK")
    return "\n".join(lines) + "\n"


def _function(text, name):
    """Where a function begins and ends in a source, by its braces at the beginning of lines."""
    begin = next((match.start() for match in re.finditer(r"^\S[^\n;]*\(", text, re.M)
                  if re.search(rf"(?<!\w){re.escape(name)}", text[match.start():text.index("\n", match.start())])
                  and text.index("{", match.start()) < text.find(";", match.start())), None)
    if begin is None:
        raise SystemExit(f"there is no function {name}")
    return begin, text.index("\n}\n", begin) + 3


def edit(kind, path, name, block):
    """Does one edit to a file."""
    if kind == "save":
        text = block
    else:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        begin, end = _function(text, name)
        text = text[:begin] + block + text[end:] if kind == "replace" else text[:end] + "\n" + block + text[end:]
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    edit(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "", sys.stdin.read())
