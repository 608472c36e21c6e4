#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What we ship exports only what it must, needs only what every machine has, and stays small."""
import glob
import os
import re
import subprocess
import tempfile

import tree

MAX_GLIBC = (2, 34)
MAX_STRIPPED_BYTES = 10 * 1000 * 1000
BASE_NEEDED = re.compile(r"^(libc\.so\.6|libm\.so\.6|libgcc_s\.so\.1|ld-linux[-\w]*\.so\.\d+)$")


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def exported(path):
    """Defined dynamic symbols without the version nodes of the map file."""
    names = []
    for line in tool("nm", "-D", "--defined-only", path).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":
            names.append(name.split("@")[0])
    return names


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", tool("readelf", "-d", "-W", path))


def glibc_versions(path):
    found = re.findall(r"\(GLIBC_([0-9.]+)\)\s+(\S+)", tool("objdump", "-T", path))
    return {(tuple(int(part) for part in version.split(".")), symbol) for version, symbol in found}


def problems_of(name, symbols, allowed, libs, extra_libs, glibc):
    """Pure: what is wrong with one library, given what the tools said about it."""
    problems = [f"{name}: exports {s}, which is not allowed" for s in symbols if not re.fullmatch(allowed, s)]
    problems += [f"{name}: needs {lib} at load" for lib in libs if not BASE_NEEDED.match(lib) and lib not in extra_libs]
    problems += [f"{name}: {symbol} needs GLIBC_{'.'.join(map(str, version))}, at most 2.34 is allowed"
                 for version, symbol in sorted(glibc) if version > MAX_GLIBC]
    return problems


def check_library(path, allowed, extra_libs=()):
    return problems_of(os.path.basename(path), exported(path), allowed, needed(path), extra_libs, glibc_versions(path))


def check_size(path):
    with tempfile.NamedTemporaryFile() as stripped:
        tool("strip", "-o", stripped.name, path)
        size = os.path.getsize(stripped.name)
    if size > MAX_STRIPPED_BYTES:
        return [f"{os.path.basename(path)}: {size} bytes stripped, at most {MAX_STRIPPED_BYTES} are allowed"]
    return []


def check(root, args):
    lib = os.path.join(args.build, "lib")
    problems = check_library(os.path.join(lib, "libstarling.so"), r"sl_\w+")
    command = os.path.join(args.build, "bin", "starling")
    problems += problems_of("starling", [], "", needed(command), (), glibc_versions(command))
    for lists in sorted(glob.glob(os.path.join(root, "modules", "*", "CMakeLists.txt"))):
        with open(lists, encoding="utf-8") as file:
            text = file.read()
        for name in re.findall(r"^\s*sl_module\(\s*([\w-]+)", text, re.M):
            module = os.path.join(lib, "starling", name + ".so")
            if not os.path.exists(module):
                problems.append(f"{module}: was not built though {lists} asks for it")
                continue
            problems += check_library(module, r"sl_module_query")
            if exported(module) != ["sl_module_query"]:
                problems.append(f"{name}.so: exports {exported(module)} instead of sl_module_query alone")
    frontend = os.path.join(lib, "libnccl.so.2")
    if os.path.isdir(os.path.join(root, "modules", "frontend-nccl")):
        problems += check_library(frontend, r"p?nccl[A-Z]\w*", ("libstarling.so",)) + check_size(frontend)
    return problems


def self_test():
    good = ("x.so", ["sl_a"], r"sl_\w+", ["libc.so.6"], (), {((2, 34), "dlopen")})
    assert not problems_of(*good)
    assert problems_of("x.so", ["_Z3foo"], r"sl_\w+", [], (), set())
    assert problems_of("x.so", [], r"sl_\w+", ["libstdc++.so.6"], (), set())
    assert problems_of("x.so", [], r"sl_\w+", [], (), {((2, 36), "arc4random")})
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "a.c"), os.path.join(folder, "a.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <stdlib.h>\nvoid* sl_module_query(void) { return malloc(3); }\nint leaked(void) { return 0; }\n")
        tool("gcc", "-shared", "-fPIC", "-o", library, source)
        found = check_library(library, r"sl_module_query")
        assert any("leaked" in problem for problem in found), found
        assert any(symbol == "malloc" for _, symbol in glibc_versions(library))


if __name__ == "__main__":
    tree.main(check, self_test, build="the build folder to look into")
