#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of other times run on today's kernel: chosen by a profile, named by `explain`, right results in `bench`.

    check_frozen.py ROOT BUILD

- the binary that was built when release 1.0 of sl.algorithm/1 was closed (frozen/1.0/, one machine type)
- the source of that day with the headers of that day, compiled now
- the same built beside other drafts, which a module of stable interfaces does not look at
- a module of a later release: its tables and structs are longer, it speaks revision 2 and still 1
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FROZEN = os.path.join(HERE, "frozen", "1.0")
PROFILE = """profile_version = 1
enable = ["device-host", "transport-shm", "vendor-module-c"]
"""


def compile_module(source, includes, out, *defines):
    subprocess.run(["cc", "-std=c11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", *defines,
                    *["-I" + folder for folder in includes], source, "-o", out], check=True)


def edit(path, *changes):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for old, new in changes:
        assert text.count(old) == 1, f"{path}: {old!r} occurs {text.count(old)} times"
        text = text.replace(old, new)
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"^SL_ASSERT_SIZE.*\n", "", text, flags=re.M))


def old_binary(_root, _folder, out):
    binary = os.path.join(FROZEN, f"vendor-module-c.{platform.machine()}.so")
    if not os.path.exists(binary):
        return f"no binary was kept for {platform.machine()}"
    shutil.copy(binary, out)
    return None


def old_source(_root, _folder, out):
    compile_module(os.path.join(FROZEN, "module.c"), [FROZEN], out)


def other_drafts(_root, folder, out):
    headers = shutil.copytree(FROZEN, os.path.join(folder, "headers"))
    with open(os.path.join(headers, "sl_module.h"), encoding="utf-8") as file:
        build_id = re.search(r'#define SL_ABI_BUILD_ID "[^"]+"', file.read()).group(0)
    edit(os.path.join(headers, "sl_module.h"), (build_id, '#define SL_ABI_BUILD_ID "1999-01-draft-0"'))
    compile_module(os.path.join(FROZEN, "module.c"), [headers], out)


def newer_module(root, folder, out):
    headers = shutil.copytree(os.path.join(root, "abi"), os.path.join(folder, "headers"))
    edit(os.path.join(headers, "sl_algorithm.h"),
         ("#define SL_ALGORITHM_REVISION 2u", "#define SL_ALGORITHM_REVISION 3u"),
         ("} sl_algorithm_ops_t;", "  void (*pause)(sl_algorithm_t* algorithm);\n} sl_algorithm_ops_t;"),
         ("} sl_step_t;", "  uint64_t newer;\n} sl_step_t;"), ("} sl_plan_desc_t;", "  uint64_t newer;\n} sl_plan_desc_t;"))
    edit(os.path.join(headers, "sl_module.h"), ("} sl_provide_t;", "  uint64_t newer;\n} sl_provide_t;"),
         ("} sl_module_t;", "  uint64_t newer;\n} sl_module_t;"))
    source = shutil.copy(os.path.join(FROZEN, "module.c"), os.path.join(folder, "newer.c"))
    edit(source, (".revision = 1,", ".revision = SL_ALGORITHM_REVISION,"))
    compile_module(source, [headers], out)


def starling(build, folder, *arguments):
    env = {**os.environ, "STARLING_MODULE_PATH": f"{folder}:{os.path.join(build, 'lib', 'starling')}"}
    done = subprocess.run([os.path.join(build, "bin", "starling"), *arguments, "--profile", os.path.join(folder, "p.toml")],
                          capture_output=True, text=True, env=env, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def run(root, build, make):
    """None: it runs. Else what went wrong; a text that begins with "no " is a reason to skip."""
    with tempfile.TemporaryDirectory() as folder:
        why = make(root, folder, os.path.join(folder, "vendor-module-c.so"))
        if why:
            return why
        with open(os.path.join(folder, "p.toml"), "w", encoding="utf-8") as file:
            file.write(PROFILE)
        code, text = starling(build, folder, "explain", "all_reduce", "1K", "--ranks", "3")
        if code != 0 or not re.search(r"^\* star ", text, re.M):
            return f"`starling explain` does not choose it, exit code {code}:\n{text}"
        code, text = starling(build, folder, "bench", "all_reduce", "--ranks", "3", "-b", "8", "-e", "512K", "-f", "16", "-n", "2")
        if code != 0 or "Out of bounds values : 0 OK" not in text:
            return f"`starling bench` exits with {code}:\n{text}"
    return None


def main():
    root, build = (os.path.abspath(path) for path in sys.argv[1:3])
    failures = 0
    for make in (old_binary, old_source, other_drafts, newer_module):
        why = run(root, build, make)
        skipped = why is not None and why.startswith("no ")
        failures += why is not None and not skipped
        print(f"{make.__name__}: {'runs' if why is None else ('skipped, ' if skipped else 'FAILED, ') + why}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
