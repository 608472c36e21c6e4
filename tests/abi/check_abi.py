#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the ABI headers to their baselines, which libabigail wrote.

    check_abi.py ROOT              says what changed in a way it may not; exit code 1 when anything did
    check_abi.py ROOT --update     writes the baselines anew: after a release, or when a draft changed
    check_abi.py ROOT --self-test  proves that each forbidden change is found and each allowed one passes

Stable headers (abi/*.h) only grow: a change is allowed when all it does is add members behind the end of a struct, or
new structs, and the section ABI of CHANGELOG.md names each new member. Their constants keep their values. Drafts (abi/draft/*.h) may change in any way,
together with SL_ABI_BUILD_ID. Every struct of a header must be in its probe. Skipped (77) without
libabigail, and on other machines than x86_64.
"""
import argparse
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
# All that abidiff says about members added at a struct's end. Any other line is a change of something that was there.
HARMLESS = [re.compile(pattern) for pattern in (
    r"^$", r"^Leaf changes summary:", r"^Changed leaf types summary:", r"^Removed/Changed/Added functions summary: 0 Removed, 0 Changed",
    r"^Removed/Changed/Added variables summary: 0 Removed", r"^\d+ (Changed|Added) variables?:$",
    r"^  \[[CA]\] '.* probe_\w+'( was changed:)?", r"^'struct \w+' changed:$", r"^  details were reported earlier$",
    r"^ +size of symbol changed from \d+ to \d+$", r"^ +type of variable changed:$",
    r"^ +(in )?(underlying|unqualified underlying) type '.*' changed:$", r"^ +type size changed from \d+ to \d+ \(in bits\)$",
    r"^ +there are data member changes:$", r"^ +type size hasn't changed$",
    r"^ +name of '\w+::reserved\d*' changed to '\w+::\w+'$",  # what was 0 has a meaning now
    r"^ +\d+ data member insertions?:$", r"^ +'.*', at offset \d+ \(in bits\)$",
)]
RESIZED = re.compile(r"type size changed from (\d+) to (\d+) \(in bits\)")
INSERTED = re.compile(r"^ +'(.*)', at offset (\d+) \(in bits\)$", re.M)
STRUCT = re.compile(r"^typedef struct (\w+) \{", re.M)
CONSTANT = re.compile(r"^#define (SL_\w+) +(\S+)", re.M)
# Constants that say how far an interface has grown.
GROWS = re.compile(r"_REVISION$|_COUNT$|^SL_CONTAINER_VERSION$|^SL_ABI_BUILD_ID$")
BUILD_ID = re.compile(r'#define SL_ABI_BUILD_ID "([^"]+)"')


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Side:
    """One of the two halves of the ABI: its headers, its probe, its baseline."""

    def __init__(self, root, name, folder):
        self.name = name
        self.headers = sorted(glob.glob(os.path.join(root, folder, "*.h")))
        self.includes = ["-I" + os.path.join(root, "abi"), "-I" + os.path.join(root, "abi", "draft")]
        self.probe = os.path.join(HERE, f"probe_{name}.c")
        self.baseline = os.path.join(HERE, "baseline", f"{name}.abi")

    def build(self, folder):
        """The probe as a shared object; its path, or the compiler's words."""
        out = os.path.join(folder, f"{self.name}.so")
        done = run("cc", "-std=c11", "-g", "-shared", "-fPIC", *self.includes, self.probe, "-o", out)
        return (out, None) if done.returncode == 0 else (None, f"{self.probe} does not compile:\n{done.stderr}")

    def unprobed(self):
        probe = read(self.probe)
        return [f"{path}: {struct} is not in {os.path.basename(self.probe)}"
                for path in self.headers for struct in STRUCT.findall(read(path)) if f"PROBE({struct})" not in probe]

    def difference(self, library):
        """abidiff's report against the baseline, "" when there is none."""
        done = run("abidiff", "--harmless", "--leaf-changes-only", "--no-show-locs", self.baseline, library)
        return "" if done.returncode == 0 else done.stdout + done.stderr


def verdict_on_growth(report, changelog):
    """What a report on a stable header holds that is more than announced growth at the end."""
    foreign = [line.strip() for line in report.splitlines() if not any(pattern.match(line) for pattern in HARMLESS)]
    if foreign:
        return ["a stable struct changed, which breaks modules: " + "; ".join(foreign)]
    problems = []
    for block in re.split(r"^(?=  \[C\])", report, flags=re.M):
        resized = RESIZED.search(block)
        for member, offset in INSERTED.findall(block):
            name = re.split(r"[ *]", member)[-1]
            if resized is None or int(offset) < int(resized.group(1)):
                problems.append(f"{member} was put between members that were there; append it")
            elif not re.search(rf"\b{name}\b", changelog):
                problems.append(f"{member} is new; say so in the section ABI of CHANGELOG.md")
    return problems


def changelog_of(root):
    sections = re.findall(r"^### ABI\n(.*?)(?=^##|\Z)", read(os.path.join(root, "CHANGELOG.md")), re.S | re.M)
    return "\n".join(sections)


def build_id_of(root):
    return BUILD_ID.search(read(os.path.join(root, "abi", "sl_module.h"))).group(1)


def constants_of(root):
    """Of the stable headers: libabigail does not see them."""
    return {name: value for path in Side(root, "stable", "abi").headers for name, value in CONSTANT.findall(read(path))
            if not GROWS.search(name)}


def changed_constants(root):
    today = constants_of(root)
    problems = []
    for line in read(os.path.join(HERE, "baseline", "constants.txt")).splitlines():
        name, value = line.split(" ", 1)
        if today.get(name) != value:
            problems.append(f"{name} was {value} and is {today.get(name, 'gone')}: modules have the old value compiled in")
    return problems


def check(root):
    problems = changed_constants(root)
    with tempfile.TemporaryDirectory() as folder:
        for side in (Side(root, "stable", "abi"), Side(root, "draft", "abi/draft")):
            problems += side.unprobed()
            library, error = side.build(folder)
            if error:
                problems.append(error)
                continue
            report = side.difference(library)
            if side.name == "stable":
                problems += verdict_on_growth(report, changelog_of(root))
            elif report and build_id_of(root) == read(os.path.join(HERE, "baseline", "build_id")).strip():
                problems.append(f"a draft changed under the build id {build_id_of(root)}: choose a new SL_ABI_BUILD_ID "
                                f"(abi/sl_module.h) and run {os.path.relpath(__file__, root)} . --update\n{report}")
    return problems


def update(root):
    os.makedirs(os.path.join(HERE, "baseline"), exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for side in (Side(root, "stable", "abi"), Side(root, "draft", "abi/draft")):
            library, error = side.build(folder)
            if error:
                raise SystemExit(error)
            done = run("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", library, "--out-file", side.baseline)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            text = read(side.baseline).replace(os.path.abspath(root) + os.sep, "")  # the same wherever the tree lies
            with open(side.baseline, "w", encoding="utf-8") as file:
                file.write(text)
    with open(os.path.join(HERE, "baseline", "constants.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{name} {value}\n" for name, value in sorted(constants_of(root).items()))
    with open(os.path.join(HERE, "baseline", "build_id"), "w", encoding="utf-8") as file:
        file.write(build_id_of(root) + "\n")


class Copy:
    """A copy of the headers and the changelog, to be changed."""

    def __init__(self, root, folder):
        self.root = folder
        shutil.copytree(os.path.join(root, "abi"), os.path.join(folder, "abi"))
        shutil.copy(os.path.join(root, "CHANGELOG.md"), folder)

    def change(self, path, old, new):
        text = read(os.path.join(self.root, path))
        assert text.count(old) == 1, f"{path}: {old!r} occurs {text.count(old)} times"
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            # The asserted sizes are a gate of their own; here libabigail is to find the change.
            file.write(re.sub(r"^SL_ASSERT_SIZE.*\n", "", text.replace(old, new), flags=re.M))


DESTROY = "  void (*destroy)(sl_algorithm_t* algorithm);\n"
LAST = "                        uint32_t* out_count);\n"
SECTION = "### ABI\n"
# name, changes (path, old, new), what a problem must say ("": none)
CASES = [
    ("nothing", [], ""),
    ("two slots swapped", [("abi/sl_algorithm.h", DESTROY, ""),
                           ("abi/sl_algorithm.h", LAST, LAST + DESTROY)], "offset changed"),
    ("a type changed", [("abi/sl_algorithm.h", "  uint64_t time_ns;", "  int64_t time_ns;")], "time_ns"),
    ("a size shrunk", [("abi/sl_algorithm.h", "  uint64_t scratch_bytes;\n  char reason[96];", "  char reason[96];")],
     "scratch_bytes"),
    ("an array shrunk", [("abi/sl_algorithm.h", "char reason[96];", "char reason[88];")], "reason"),
    ("a slot's parameter changed", [("abi/sl_algorithm.h", "sl_demand_t* out_demand);", "sl_op_t* out_demand);")], "demand"),
    ("a slot put in the middle", [("abi/sl_algorithm.h", DESTROY, DESTROY + "  void (*pause)(sl_algorithm_t* algorithm);\n")],
     "offset changed"),
    ("a slot appended silently", [("abi/sl_algorithm.h", LAST, LAST + "  void (*pause)(sl_algorithm_t* algorithm);\n")],
     "say so in the section ABI"),
    ("a slot appended with its line", [("abi/sl_algorithm.h", LAST, LAST + "  void (*pause)(sl_algorithm_t* algorithm);\n"),
                                       ("CHANGELOG.md", SECTION, SECTION + "\n- `sl_algorithm_ops_t` gains `pause`.\n")], ""),
    ("a reserved member named", [("abi/sl_algorithm.h", "  uint32_t reserved;\n  uint64_t symmetric_bytes;",
                                  "  uint32_t hue;\n  uint64_t symmetric_bytes;")], ""),
    ("a member renamed", [("abi/sl_algorithm.h", "  uint32_t link_slots; ", "  uint32_t slots; ")], "link_slots"),
    ("a constant changed", [("abi/sl_algorithm.h", "#define SL_STEP_PUT 5u", "#define SL_STEP_PUT 9u")], "SL_STEP_PUT was 5u"),
    ("a struct without a probe", [("abi/sl_module.h", "typedef struct sl_hello_t {", "typedef struct sl_new_t {\n  int x;\n} "
                                   "sl_new_t;\n\ntypedef struct sl_hello_t {")], "sl_new_t is not in"),
    ("a draft changed silently", [("abi/draft/sl_fault.h", "uint32_t faults; ", "uint64_t faults; ")], "new SL_ABI_BUILD_ID"),
    ("a draft changed with its id", [("abi/draft/sl_fault.h", "uint32_t faults; ", "uint64_t faults; "),
                                     ("abi/sl_module.h", '#define SL_ABI_BUILD_ID "', '#define SL_ABI_BUILD_ID "x')], ""),
]


def self_test(root):
    failures = 0
    for name, changes, wanted in CASES:
        with tempfile.TemporaryDirectory() as folder:
            copy = Copy(root, os.path.join(folder, "tree"))
            for change in changes:
                copy.change(*change)
            problems = "\n".join(check(copy.root))
            good = wanted in problems if wanted else not problems
            failures += not good
            print(f"{'ok  ' if good else 'FAIL'} {name}: {problems[:160] if problems else 'passes'}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if shutil.which("abidiff") is None or platform.machine() != "x86_64":
        print("libabigail is not installed (./run test installs abigail-tools), or this is not the machine type of the "
              "baselines, x86_64; the ABI is not compared")
        return SKIPPED
    root = os.path.abspath(args.root)
    if args.update:
        update(root)
        return 0
    if args.self_test:
        return 1 if self_test(root) else 0
    problems = check(root)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s)")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
