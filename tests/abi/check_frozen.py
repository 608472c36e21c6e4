#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of other times run on today's kernel: chosen by a profile, seen at work, right results in `bench`.

    check_frozen.py ROOT BUILD

For sl.algorithm/1 (frozen/1.0/, named by `explain`), sl.transport/1 (frozen/transport-1.0/) and sl.device/1
(frozen/device-1.0/), the latter layers that say in the log what they handed on:

- the binary that was built when release 1.0 of the interface was closed (one machine type)
- the source of that day with the headers of that day, compiled now
- the same built beside other drafts, which a module of stable interfaces does not look at
- a module of a later release: its tables and structs are longer, it speaks revision 9 and still 1
"""
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class Frozen:
    """A module as it was on the day on which its interface was closed."""

    def __init__(self, folder, name, profile, newer, tally=None):
        self.folder = os.path.join(HERE, "frozen", folder)
        self.source = os.path.join(self.folder, "module.c")
        self.name = name
        self.profile = "profile_version = 1\n" + profile
        self.newer = newer  # (header, changes): how a later release would look
        self.tally = tally  # what a layer says of each rank; no number in it may be zero


ALGORITHM = Frozen(
    "1.0", "vendor-module-c", 'enable = ["device-host", "transport-shm", "vendor-module-c"]\n',
    ("sl_algorithm.h", (
        ("#define SL_ALGORITHM_REVISION 10u", "#define SL_ALGORITHM_REVISION 11u"),
        ("} sl_algorithm_ops_t;", "  void (*pause)(sl_algorithm_t* algorithm);\n} sl_algorithm_ops_t;"),
        ("} sl_step_t;", "  uint64_t newer;\n} sl_step_t;"), ("} sl_plan_desc_t;", "  uint64_t newer;\n} sl_plan_desc_t;"))))
# Links are what a transport serves, so only an algorithm that plans may serve.
TRANSPORT = Frozen(
    "transport-1.0", "vendor-relay",
    'enable = ["device-host", "transport-shm", "algo-ring", "vendor-relay"]\nlayers = ["vendor-relay"]\n',
    ("sl_transport.h", (
        ("#define SL_TRANSPORT_REVISION 1u", "#define SL_TRANSPORT_REVISION 9u"),
        ("} sl_transport_ops_t;", "  void (*pause)(sl_transport_t* transport);\n} sl_transport_ops_t;"),
        *((f"}} {struct};", f"  uint64_t newer;\n}} {struct};")
          for struct in ("sl_port_t", "sl_connect_args_t", "sl_window_t", "sl_put_t", "sl_wait_object_t")))),
    r"relayed (\d+) ports, (\d+) connections, (\d+) puts, (\d+) bytes")
# Plans launch nothing, so only an algorithm that launches may serve.
DEVICE = Frozen(
    "device-1.0", "vendor-tally",
    'enable = ["device-host", "transport-shm", "algo-symmetric", "vendor-tally"]\nlayers = ["vendor-tally"]\n',
    ("sl_device.h", (
        ("#define SL_DEVICE_REVISION 2u", "#define SL_DEVICE_REVISION 9u"),
        ("} sl_device_ops_t;", "  void (*pause)(sl_device_t* device);\n} sl_device_ops_t;"),
        *((f"}} {struct};", f"  uint64_t newer;\n}} {struct};")
          for struct in ("sl_device_info_t", "sl_pointer_info_t", "sl_memory_handle_t", "sl_wait_t", "sl_image_desc_t",
                         "sl_launch_t")))),
    r"tallied (\d+) bytes, (\d+) launches, (\d+) processors")


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


def old_binary(frozen, _root, _folder, out):
    binary = os.path.join(frozen.folder, f"{frozen.name}.{platform.machine()}.so")
    if not os.path.exists(binary):
        return f"no binary was kept for {platform.machine()}"
    shutil.copy(binary, out)
    return None


def old_source(frozen, _root, _folder, out):
    compile_module(frozen.source, [frozen.folder], out)


def other_drafts(frozen, _root, folder, out):
    headers = shutil.copytree(frozen.folder, os.path.join(folder, "headers"))
    with open(os.path.join(headers, "sl_module.h"), encoding="utf-8") as file:
        build_id = re.search(r'#define SL_ABI_BUILD_ID "[^"]+"', file.read()).group(0)
    edit(os.path.join(headers, "sl_module.h"), (build_id, '#define SL_ABI_BUILD_ID "1999-01-draft-0"'))
    compile_module(frozen.source, [headers], out)


def newer_module(frozen, root, folder, out):
    headers = shutil.copytree(os.path.join(root, "abi"), os.path.join(folder, "headers"))
    header, changes = frozen.newer
    edit(os.path.join(headers, header), *changes)
    edit(os.path.join(headers, "sl_module.h"), ("} sl_provide_t;", "  uint64_t newer;\n} sl_provide_t;"),
         ("} sl_module_t;", "  uint64_t newer;\n} sl_module_t;"))
    source = shutil.copy(frozen.source, os.path.join(folder, "newer.c"))
    edit(source, (".revision = 1,", ".revision = 9,"))
    compile_module(source, [headers], out)


def starling(build, folder, *arguments):
    env = {**os.environ, "STARLING_LOG": "info", "STARLING_MODULE_PATH": f"{folder}:{os.path.join(build, 'lib', 'starling')}"}
    done = subprocess.run([os.path.join(build, "bin", "starling"), *arguments, "--profile", os.path.join(folder, "p.toml")],
                          capture_output=True, text=True, env=env, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def algorithm_at_work(build, folder):
    code, text = starling(build, folder, "explain", "all_reduce", "1K", "--ranks", "3")
    if code != 0 or not re.search(r"^\* star ", text, re.M):
        return f"`starling explain` does not choose it, exit code {code}:\n{text}"
    return None


def layer_at_work(frozen, text):
    """Every rank says what it handed on, and that is something of everything."""
    tallies = re.findall(frozen.tally, text)
    if len(tallies) < 3 or any(int(count) == 0 for tally in tallies for count in tally):
        return f"the layer was not at work on 3 ranks:\n{text}"
    return None


def run(frozen, root, build, make):
    """None: it runs. Else what went wrong; a text that begins with "no " is a reason to skip."""
    with tempfile.TemporaryDirectory() as folder:
        why = make(frozen, root, folder, os.path.join(folder, frozen.name + ".so"))
        if why:
            return why
        with open(os.path.join(folder, "p.toml"), "w", encoding="utf-8") as file:
            file.write(frozen.profile)
        if frozen is ALGORITHM and (why := algorithm_at_work(build, folder)):
            return why
        code, text = starling(build, folder, "bench", "all_reduce", "--ranks", "3", "-b", "8", "-e", "512K", "-f", "16", "-n", "2")
        if code != 0 or "Out of bounds values : 0 OK" not in text:
            return f"`starling bench` exits with {code}:\n{text}"
        return layer_at_work(frozen, text) if frozen.tally else None


def main():
    root, build = (os.path.abspath(path) for path in sys.argv[1:3])
    failures = 0
    for frozen, make in itertools.product((ALGORITHM, TRANSPORT, DEVICE), (old_binary, old_source, other_drafts, newer_module)):
        why = run(frozen, root, build, make)
        skipped = why is not None and why.startswith("no ")
        failures += why is not None and not skipped
        print(f"{frozen.name}, {make.__name__}: {'runs' if why is None else ('skipped, ' if skipped else 'FAILED, ') + why}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
