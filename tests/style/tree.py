# SPDX-License-Identifier: Apache-2.0
"""What every style check shares: the list of files, source text without comments, and how a check reports."""
import argparse
import os
import re
import subprocess
import sys

SOURCE_SUFFIXES = (".h", ".cc", ".c", ".cu", ".cuh", ".hpp", ".cpp")
SKIP = 77  # ctest's SKIP_RETURN_CODE in CMakeLists.txt


def git(root, *arguments):
    """Lines git printed; None without git or history. A tree owned by someone else is read all the same."""
    try:
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", root, *arguments], capture_output=True, text=True,
                              check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None


def files(root, suffixes=SOURCE_SUFFIXES):
    """Paths relative to root of what belongs to the tree: tracked or at least not ignored; build folders never."""
    out = git(root, "ls-files", "-co", "--exclude-standard")
    if out is None:
        out = []
        for folder, dirs, names in os.walk(root):
            dirs[:] = [d for d in dirs if not d.startswith((".git", "build"))]
            out += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(f for f in set(out) if f.endswith(tuple(suffixes)) and os.path.isfile(os.path.join(root, f)))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


_TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|'
                     r"(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'", re.S)


def without_comments(text):
    """The text with comments and literals blanked; lines keep their numbers."""
    def blank(match):
        word = match.group(0)
        kept = '""' if word[0] in "\"R'" else " "
        return kept + "\n" * word.count("\n")
    return _TOKENS.sub(blank, text)


def main(check, self_test, **extra):
    """Runs `check(root, args) -> list of messages, or None for skipped` or the self-test; exits 0, 1 or 77."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", nargs="?", default=".")
    parser.add_argument("--self-test", action="store_true", help="prove that the check can fail")
    for name, text in extra.items():
        parser.add_argument("--" + name, help=text)
    args = parser.parse_args()
    if args.self_test:
        self_test()
        print("self-test: the check fails where it must")
        sys.exit(0)
    problems = check(args.root, args)
    if problems is None:
        sys.exit(SKIP)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s)")
    sys.exit(1 if problems else 0)
