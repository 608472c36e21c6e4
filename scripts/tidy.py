#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over every source of the tree but tests, or over those named: scripts/tidy.py [FILE…]

A source that holds is not looked at again, by any checkout of this user, until it, a header it includes, how it is
compiled, .clang-tidy or clang-tidy itself change: ~/.cache/starling/tidy has a name for each combination that held.
Exit code 1 when a source does not hold.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATABASE = "build/tidy"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "starling", "tidy")
JOBS = int(os.environ.get("SL_JOBS") or os.cpu_count())
SECONDS_PER_FILE = 300  # a bound, so that a run always ends
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@functools.lru_cache(maxsize=None)
def headers():
    """Paths of the tree's headers by the names of their files."""
    by_name = {}
    for folder, folders, files in os.walk("."):
        folders[:] = [name for name in folders if not name.startswith(("build", ".git"))]
        for name in files:
            if name.endswith((".h", ".inc")):
                by_name.setdefault(name, []).append(os.path.join(folder, name))
    return by_name


@functools.lru_cache(maxsize=None)
def included(path):
    """The headers a file may mean: all whose paths end with the text between its quotes."""
    return tuple(header for text in INCLUDE.findall(read(path))
                 for header in headers().get(os.path.basename(text), ()) if header.endswith("/" + text))


def closure(path):
    found, open_ends = {path}, [path]
    while open_ends:
        fresh = set(included(open_ends.pop())) - found
        found |= fresh
        open_ends += fresh
    return sorted(found)


def compile_commands():
    """How each source that is looked at is compiled, by its path in the tree."""
    os.makedirs(DATABASE, exist_ok=True)
    subprocess.run(["cmake", "-S", ".", "-B", DATABASE, "-G", "Ninja", "-DCMAKE_C_COMPILER=clang",
                    "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_CXX_COMPILER_LAUNCHER=",
                    "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"], check=True, stdout=subprocess.DEVNULL)
    commands = {}
    for entry in json.loads(read(f"{DATABASE}/compile_commands.json")):
        path = os.path.relpath(entry["file"], ROOT)
        if path.endswith(".cc") and not path.startswith(("..", "build")) and "test" not in os.path.basename(path):
            commands[path] = entry["command"].replace(ROOT, "")
    return commands


def tidy(path, command, common):
    """What is wrong with a source; empty when it holds."""
    digest = hashlib.sha256((common + command).encode())
    for one in closure(path):
        digest.update(one.encode() + read(one).encode())
    held = os.path.join(CACHE, digest.hexdigest()[:32])
    if os.path.exists(held):
        return ""
    try:
        run = subprocess.run(["clang-tidy", "--quiet", "-p", DATABASE, path], capture_output=True, text=True,
                             timeout=SECONDS_PER_FILE)
    except subprocess.TimeoutExpired:
        return f"{path}: clang-tidy took more than {SECONDS_PER_FILE} s"
    if run.returncode == 0:
        open(held, "w", encoding="utf-8").close()
        return ""
    text = run.stdout + run.stderr
    problems = [line for line in text.splitlines() if "error:" in line or "warning:" in line]
    return "\n".join(problems) or f"{path}: {text}"


def main():
    os.chdir(ROOT)
    os.makedirs(CACHE, exist_ok=True)
    commands = compile_commands()
    files = [os.path.relpath(os.path.abspath(name)) for name in sys.argv[1:]] or sorted(commands)
    common = read(".clang-tidy") + subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True,
                                                  check=True).stdout
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for problems in pool.map(lambda path: tidy(path, commands.get(path, ""), common), files):
            if problems:
                failed += 1
                print(problems, flush=True)
    if failed:
        sys.exit(f"tidy: {failed} of {len(files)} sources have the problems above")
    print(f"tidy: {len(files)} sources hold")


if __name__ == "__main__":
    main()
