#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No tool names a module: what it does with one it does with all. Tests and comments may."""
import re

import tree


def code_of(text):
    """The text without comments; literals stay, lines keep their numbers."""
    def keep(match):
        word = match.group(0)
        return re.sub(r"[^\n]", " ", word) if word.startswith("/") else word
    return tree._TOKENS.sub(keep, text)


def modules_of(paths):
    return sorted({path.split("/")[1] for path in paths if path.startswith("modules/") and path.count("/") > 1})


def check_text(path, text, modules):
    names = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, modules)) + r")(?![\w-])")
    code = code_of(text)
    return [f"{path}:{code.count(chr(10), 0, found.start()) + 1}: names the module {found.group(1)}; ask for what it "
            "provides, or take its name from the profile" for found in names.finditer(code)]


def check(root, _args):
    paths = tree.files(root)
    modules = modules_of(paths)
    problems = []
    for path in paths:
        if path.startswith("tools/") and not path.endswith(("_test.cc", "_test_util.cc", "_test_util.h")):
            if "/tests/" not in path:
                problems += check_text(path, tree.read(root, path), modules)
    return problems


def self_test():
    modules = modules_of(["modules/algo-a/module.cc", "modules/algo-b/x.h", "modules/CMakeLists.txt", "sdk/x.h"])
    assert modules == ["algo-a", "algo-b"]
    assert not check_text("tools/a.cc", '// as algo-a does\n/* algo-b */ const char* x = "algo-aa my-algo-b";\n', modules)
    bad = check_text("tools/a.cc", '\nif (name == "algo-a") return;\n', modules)
    assert len(bad) == 1 and bad[0].startswith("tools/a.cc:2: names the module algo-a"), bad


if __name__ == "__main__":
    tree.main(check, self_test)
