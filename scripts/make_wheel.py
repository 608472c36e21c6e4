#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python wheel of what a build folder holds: scripts/make_wheel.py BUILD OUT

The wheel is an installation (bin/, lib/, share/ as SlInstall.cmake lays them out) inside the package `starling`, so that
everything finds its siblings wherever pip puts it; beside it lies `starling_plans`. The oldest C library it runs on, and
the processor, are read from what is shipped and become the wheel's tag. The same files give the same bytes: times are
SOURCE_DATE_EPOCH.
"""
import argparse
import base64
import hashlib
import os
import re
import subprocess
import tempfile
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What of an installation goes into the package: programs, libraries and profiles; pages and headers stay out.
SHIPPED = ("bin", "lib/libstarling.so", "lib/starling", "share/starling/configs")
PYTHON = "lib/python3/dist-packages/starling_plans"
EXECUTABLE, PLAIN = 0o100755, 0o100644
METADATA = """\
Metadata-Version: 2.1
Name: starling
Version: {version}
Summary: Collective communication runtime made of modules, with a drop-in libnccl.so.2
License: Apache-2.0
Requires-Python: >=3.10
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: starling make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n"
ENTRY_POINTS = "[console_scripts]\nstarling = starling.__main__:main\n"


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tool(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    except OSError as error:
        raise SystemExit(f"make_wheel: cannot run {command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        raise SystemExit(f"make_wheel: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def project_version(build):
    return re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", read(os.path.join(build, "CMakeCache.txt")).decode(), re.M)[1]


def files_below(folder):
    """Paths of all files below a folder, or the path of a file itself; sorted."""
    if os.path.isfile(folder):
        return [folder]
    return sorted(os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names)


def platform_tag(paths):
    """The tag of a wheel with these files: their processor, and the newest version of glibc that any of them asks for."""
    machines, versions = set(), set()
    for path in paths:
        if read(path)[:4] != b"\x7fELF":
            continue
        said = tool("readelf", "--wide", "--file-header", "--version-info", path)
        machines.add({"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}[re.search(r"Machine:\s+(.*)", said)[1]])
        versions |= {tuple(map(int, version)) for version in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", said)}
    if len(machines) != 1:
        raise SystemExit(f"make_wheel: a wheel is for one processor, found {sorted(machines)}")
    return "py3-none-manylinux_{}_{}_{}".format(*max(versions), machines.pop())


def collect(build, prefix):
    """{path in the wheel: (path on disk, mode)} of everything but the description of the wheel."""
    files = {}
    for part in SHIPPED:
        for path in files_below(os.path.join(prefix, part)):
            files["starling/" + os.path.relpath(path, prefix)] = (path, EXECUTABLE if os.access(path, os.X_OK) else PLAIN)
    for folder in (os.path.join(ROOT, "python", "starling"), os.path.join(prefix, PYTHON)):
        for path in files_below(folder):
            if "__pycache__" not in path:
                files[os.path.relpath(path, os.path.dirname(folder))] = (path, PLAIN)
    info = f"starling-{project_version(build)}.dist-info"
    files[f"{info}/licenses/LICENSE"] = (os.path.join(ROOT, "LICENSE"), PLAIN)
    bill = os.path.join(build, "sbom.spdx.json")
    if os.path.exists(bill):
        files[f"{info}/sboms/starling.spdx.json"] = (bill, PLAIN)
    return files


def write_wheel(out, version, tag, files):
    """Writes the wheel into the folder `out` and returns its path."""
    info = f"starling-{version}.dist-info"
    readme = read(os.path.join(ROOT, "README.md")).decode()
    content = {name: (read(path), mode) for name, (path, mode) in files.items()}
    for name, text in (("METADATA", METADATA.format(version=version, readme=readme)), ("WHEEL", WHEEL.format(tag=tag)),
                       ("entry_points.txt", ENTRY_POINTS)):
        content[f"{info}/{name}"] = (text.encode(), PLAIN)
    record = ""
    for name, (data, _) in sorted(content.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    content[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), PLAIN)
    # A zip file knows no time before 1980 and counts in twos of seconds.
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]
    path = os.path.join(out, f"starling-{version}-{tag}.whl")
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        # What describes the wheel comes last, so that it is found quickly.
        for name, (data, mode) in sorted(content.items(), key=lambda item: (item[0].startswith(info), item[0])):
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    os.replace(path + ".new", path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("out")
    arguments = parser.parse_args()
    if not os.path.exists(os.path.join(arguments.build, "CMakeCache.txt")):
        raise SystemExit(f"make_wheel: {arguments.build} is no build folder: it has no CMakeCache.txt; see ./run build")
    os.makedirs(arguments.out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="starling-wheel.") as prefix:
        for component in ("runtime", "nccl"):
            tool("cmake", "--install", arguments.build, "--prefix", prefix, "--strip", "--component", component)
        files = collect(arguments.build, prefix)
        tag = platform_tag([path for path, _ in files.values()])
        print(write_wheel(arguments.out, project_version(arguments.build), tag, files))


if __name__ == "__main__":
    main()
