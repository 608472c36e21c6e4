#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone: ABI headers and nccl.h as C11 and C++20, all others as C++20. Where there is ccache, a header
that has not changed, nor what it includes, is not compiled again."""
import concurrent.futures
import os
import shutil
import subprocess
import tempfile

import tree

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O0", "-c"]
DEFINES = ["-DTOML_HEADER_ONLY=1", "-DFMT_HEADER_ONLY=1", "-DSPDLOG_FMT_EXTERNAL=1", "-DBOOST_DLL_USE_STD_FS=1"]


def is_c(path):
    return path.startswith("abi/") or os.path.basename(path) == "nccl.h"


def compile_alone(root, path, language):
    if language == "c":
        compiler = [os.environ.get("CC", "gcc"), "-std=c11", "-x", "c"]
    else:
        compiler = [os.environ.get("CXX", "g++"), "-std=c++20", "-x", "c++"]
    cache = ["ccache"] if shutil.which("ccache") else []
    # Paths are relative to the tree, so that every tree finds what another one has compiled.
    roots = ["-I" + d for d in (".", "abi", "abi/draft", "modules/frontend-nccl")]
    with tempfile.TemporaryDirectory() as out:
        command = [*cache, *compiler, *STRICT, *DEFINES, *roots, "-include", path, os.devnull, "-o", os.path.join(out, "o")]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
    return f"{path}: does not compile alone as {language}: {lines[0] if lines else 'compiler failed'}"


def check(root, _args):
    jobs = []
    for path in tree.files(root, (".h",)):
        if path.split("/")[0] in ("abi", "sdk", "kernel", "modules") and not path.startswith("sdk/device/"):
            jobs += [(root, path, "c++")] + ([(root, path, "c")] if is_c(path) else [])
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return [problem for problem in pool.map(lambda job: compile_alone(*job), jobs) if problem]


def self_test():
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "abi"))
        cases = {"sl_bad.h": ("uint32_t x_;\n", True, True), "sl_good.h": ("#include <stdint.h>\ntypedef uint32_t t;\n", 0, 0),
                 "sl_cxx.h": ("class A;\n", True, False)}
        for name, (text, bad_c, bad_cxx) in cases.items():
            with open(os.path.join(root, "abi", name), "w", encoding="utf-8") as file:
                file.write(text)
            assert bool(compile_alone(root, "abi/" + name, "c")) == bool(bad_c), name
            assert bool(compile_alone(root, "abi/" + name, "c++")) == bool(bad_cxx), name


if __name__ == "__main__":
    tree.main(check, self_test)
