#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing is accepted and ignored: every key of a profile is read by the kernel, every option of a module by the module,
and every interface that modules may provide is either collected by the kernel or marked as one that nobody asks yet, of
which the loader warns."""
import re

import tree

KEYS = "kernel/profile/keys.cc"
STUBS = "kernel/loader/stubs.cc"
SETTING = re.compile(r"\bs\.((?:\w+\.)?\w+) = ")
# An option of the list, or a constant that stands for one that is shared and read elsewhere: its name is then empty.
ENTRY = re.compile(r"^\s+(?:(?:sl::)?\w+Option\(\s*\"(\w+)\"|[\w:]+\[\d\])", re.M)
READ = re.compile(r"\boptions\.(?:Int|Bool|String)\((\w+)\)|\bvalue\((\d+)\)")
INTERFACE = re.compile(r"Describe<\w+>\(\s*(SL_\w+_ID),(.*?)\)(?=,\n|\n)", re.S)


def unread_settings(keys, others):
    """Settings that a key fills and no source outside of kernel/profile reads."""
    problems = []
    for setting in sorted(set(SETTING.findall(keys))):
        field = setting.rsplit(".", 1)[-1]
        group = setting.split(".")[0]
        reads = re.compile(rf"(?:\b{group}|settings\(\)|settings|{group}\(\))\.{field}\b")
        if not any(reads.search(text) for text in others):
            problems.append(f"{KEYS}: {setting} is set by the profile, and nothing reads it: refuse the key, or warn of it")
    return problems


def unread_options(path, text, folder):
    """Options of a module by their place in its list, or by the constant of that place in `enum Option`."""
    listed = re.search(r"sl_option_t kOptions\[\] = \{(.*?)\n\};", text, re.S)
    if not listed:
        return []
    constants = re.search(r"\benum Option[^{]*\{([^}]*)\}", text)
    constants = re.findall(r"\w+", constants.group(1)) if constants else []
    read = {a or b for a, b in READ.findall(folder)}
    problems = []
    for i, name in enumerate(ENTRY.findall(listed.group(1))):
        if str(i) in read or (i < len(constants) and constants[i] in read) or not name:
            continue
        problems.append(f"{path}: the option {name} is declared, and nothing reads it")
    return problems


def unasked_interfaces(stubs, kernel):
    problems = []
    for name, rest in INTERFACE.findall(stubs):
        is_collected = any(re.search(rf"Collect<\w+>\([^;]*\b{name}\b", text) for text in kernel)
        is_marked = "Asked::kByNobodyYet" in rest
        if is_collected == is_marked:
            what = "collected, so it is asked" if is_collected else "not collected, so modules that provide it do nothing"
            problems.append(f"{STUBS}: {name} is {what}: {'drop' if is_marked else 'say'} Asked::kByNobodyYet")
    return problems


def check(root, _):
    sources = tree.files(root, (".cc", ".h"))
    kernel = [tree.read(root, f) for f in sources
              if f.startswith("kernel/") and not f.startswith("kernel/profile/") and not f.endswith("_test.cc")]
    problems = unread_settings(tree.read(root, KEYS), kernel)
    problems += unasked_interfaces(tree.read(root, STUBS), kernel)
    for path in sources:
        if re.fullmatch(r"modules/[\w-]+/\w+\.(cc|h)", path):
            folder = "\n".join(tree.read(root, f) for f in sources if f.startswith(path.rsplit("/", 1)[0] + "/"))
            problems += unread_options(path, tree.read(root, path), folder)
    return problems


def self_test():
    keys = "s.comm.a_ms = 1; s.link.slots = 2;"
    assert unread_settings(keys, ["x = comm.a_ms;", "link.slots"]) == []
    assert len(unread_settings(keys, ["x = comm.a_ms;"])) == 1
    module = 'const sl_option_t kOptions[] = {\n  sl::IntOption("first", 1),\n  BoolOption("second"),\n};'
    assert unread_options("m", module, "options.Int(0) options.Bool(1)") == []
    assert len(unread_options("m", module, "options.Int(0)")) == 1
    stubs = "Describe<a>(SL_A_ID, 1),\nDescribe<b>(SL_B_ID, 1, Asked::kByNobodyYet),\n"
    kernel = ["Collect<x>(*l, SL_A_ID)"]
    assert unasked_interfaces(stubs, kernel) == []
    assert len(unasked_interfaces(stubs, kernel + ["Collect<x>(*l, SL_B_ID)"])) == 1
    assert len(unasked_interfaces(stubs, [])) == 1


if __name__ == "__main__":
    tree.main(check, self_test)
