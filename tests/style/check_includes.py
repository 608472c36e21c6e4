#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Include rules: abi <- sdk <- kernel and modules; kernel floors in their order; a module alone with sdk and abi."""
import re

import tree

# A room includes only rooms before it. base and util lie below all.
FLOORS = ["base", "util", "events", "profile", "loader", "topo", "memory", "link", "plan", "engine", "control", "comm",
          "runtime"]
# How ranks meet and how data moves know nothing of each other; comm brings them together.
DATA_PATH = {"memory", "link", "plan", "engine"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)
DEVICE_HEADERS = re.compile(r"^(cuda|cub/|nvml|infiniband/|rdma/|nccl)")
ABI_C_HEADERS = {"stddef.h", "stdint.h"}


def problem_with(path, quote, name):
    """Why `path` may not include `name`; None when it may."""
    folder, _, rest = path.partition("/")
    own = rest.partition("/")[0]
    target, _, target_rest = name.partition("/")
    target_own = target_rest.partition("/")[0]
    if quote == '"' and ".." in name.split("/"):
        return "includes are written from the repository root, without .."
    if folder == "abi":
        if quote == "<":
            return None if name in ABI_C_HEADERS else "an ABI header includes only <stddef.h>, <stdint.h> and abi headers"
        return None if re.fullmatch(r"(draft/)?sl_\w+\.h", name) else "an ABI header includes nothing of ours but abi headers"
    if folder == "sdk" and target in ("kernel", "modules"):
        return "sdk/ includes only sdk/ and abi/"
    if folder == "kernel":
        return problem_in_kernel(own, quote, name, target, target_own)
    if folder == "modules":
        if target == "kernel":
            return "a module never includes kernel/"
        if target == "modules" and target_own != own:
            return f"a module never includes another module ({target_own})"
    return None


def problem_in_kernel(floor, quote, name, target, target_floor):
    if target == "modules":
        return "the kernel never includes a module"
    if DEVICE_HEADERS.match(name):
        return "the kernel never includes CUDA, verbs or NCCL"
    if floor not in FLOORS:
        return f"unknown kernel floor {floor}; floors are {' '.join(FLOORS)} (tests/style/check_includes.py)"
    if quote == '"' and target == "kernel":
        if target_floor not in FLOORS:
            return f"unknown kernel floor {target_floor}"
        if FLOORS.index(target_floor) > FLOORS.index(floor):
            return f"floor {floor} comes before {target_floor}; a room includes only rooms before it"
        if floor == "control" and target_floor in DATA_PATH:
            return f"control and the data path ({target_floor}) know nothing of each other"
    return None


def check_text(path, text):
    problems = []
    # Comments go, quoted include paths stay: so only comments are blanked.
    text = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    for match in INCLUDE.finditer(text):
        why = problem_with(path, match.group(1), match.group(2))
        if why:
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{path}:{line}: includes {match.group(2)}: {why}")
    return problems


def check(root, _args):
    return [problem for path in tree.files(root) for problem in check_text(path, tree.read(root, path))]


def self_test():
    bad = [("abi/sl_x.h", "#include <stdio.h>"), ("abi/sl_x.h", '#include "sdk/status.h"'),
           ("sdk/x.h", '#include "kernel/plan/plan.h"'), ("kernel/plan/a.cc", '#include "modules/x/y.h"'),
           ("kernel/plan/a.cc", "#include <cuda.h>"), ("kernel/plan/a.cc", "#include <infiniband/verbs.h>"),
           ("kernel/plan/a.cc", '#include "kernel/engine/engine.h"'), ("kernel/control/a.cc", '#include "kernel/link/l.h"'),
           ("kernel/engine/a.cc", '#include "kernel/control/c.h"'), ("kernel/attic/a.cc", "#include <vector>"),
           ("modules/a/a.cc", '#include "modules/b/b.h"'), ("modules/a/a.cc", '#include "kernel/plan/plan.h"'),
           ("modules/a/tests/a.cc", '#include "../../b/b.h"')]
    for path, text in bad:
        assert check_text(path, text), f"not caught: {path} {text}"
    good = [("abi/sl_x.h", '#include <stdint.h>\n#include "sl_base.h"'), ("kernel/plan/a.cc", '#include "kernel/link/l.h"'),
            ("modules/a/a.cc", '#include "modules/a/b.h"\n#include "sdk/status.h"\n// #include "kernel/x.h"'),
            ("kernel/plan/a.cc", '#include "kernel/plan/plan.h"\n#include <vector>')]
    for path, text in good:
        assert not check_text(path, text), f"wrongly caught: {path} {text}"


if __name__ == "__main__":
    tree.main(check, self_test)
