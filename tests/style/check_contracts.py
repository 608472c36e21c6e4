#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Contracts: every function of an ABI table says by whom it may be called, what it returns and since when.

A slot's comment names `thread:`; `returns:` when it returns anything; `since:`; `owns:` when it hands an object out or
takes one back. Blocking follows from the thread class (abi/sl_base.h) and is said where it does not. A group of slots
may not share one comment: a reader who looks one up must not have to search.
"""
import re

import tree

TABLE = re.compile(r"^typedef struct (\w+) \{(.*?)^\} \1;", re.S | re.M)
SLOT = re.compile(r"((?:/\*(?:(?!\*/).)*\*/\s*)?)([\w \t]+?[ *]+)\(\*(\w+)\)\(([^;]*)\)\s*;", re.S)
# Call-backs inside argument structs are not slots of a table.
IS_TABLE = re.compile(r"(_ops_t|^sl_host_t|^sl_module_t)$")
HANDS_OUT = re.compile(r"sl_\w+_t\s*\*\*\s*out_\w+")
GIVES_BACK = re.compile(r"destroy|release|retire|close|deregister|unload|unmap")


def missing_words(comment, result, name, parameters):
    needed = ["thread", "since"]
    if result.strip() != "void":
        needed.append("returns")
    if HANDS_OUT.search(parameters) or (GIVES_BACK.search(name) and result.strip() == "void"):
        needed.append("owns")
    return [word for word in needed if not re.search(rf"\b{word}\b[^:\n]*:", comment)]


def problems_of(path, text):
    problems = []
    for table in TABLE.finditer(text):
        if not IS_TABLE.search(table.group(1)):
            continue
        for slot in SLOT.finditer(table.group(2)):
            comment, result, name, parameters = slot.groups()
            missing = missing_words(comment, result, name, parameters)
            if missing:
                problems.append(f"{path}: {table.group(1)}::{name} does not say {', '.join(word + ':' for word in missing)}")
    return problems


def check(root, _args):
    problems = []
    for path in tree.files(root, (".h",)):
        if path.startswith("abi/"):
            problems += problems_of(path, tree.read(root, path))
    return problems


def self_test():
    table = "typedef struct sl_x_ops_t {\n  uint32_t struct_size;\n%s} sl_x_ops_t;\n"
    good = "  /* Makes it.   thread: [init]   owns: the caller   returns: SL_OK   since: 1 */\n  int (*create)(sl_x_t** out_x);\n"
    bare = "  int (*second)(void);\n"
    assert not problems_of("a.h", table % good)
    assert "second does not say thread:, since:, returns:" in problems_of("a.h", table % (good + bare))[0]
    assert "owns" in problems_of("a.h", table % good.replace("owns: the caller", ""))[0]
    assert not problems_of("a.h", (table % bare).replace("sl_x_ops_t", "sl_x_args_t"))


if __name__ == "__main__":
    tree.main(check, self_test)
