#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commit titles: `component: imperative title`, at most 72 characters. Skipped where there is no history."""
import re

import tree

TITLE = re.compile(r"^[A-Za-z0-9._/*-]+(, ?[A-Za-z0-9._/*-]+)*: \S.*[^.\s]$")
# Words that look like a past form but are none.
NOT_PAST = {"embed", "feed", "need", "speed", "seed", "shed", "bring", "string", "ring", "ping", "exceed", "proceed", "sting"}


def problem_with(title):
    if len(title) > 72:
        return f"{len(title)} characters, at most 72"
    if not TITLE.match(title):
        return "not `component: title` without a full stop"
    first = title.split(": ", 1)[1].split()[0].lower()
    if re.search(r"(ed|ing)$", first) and first not in NOT_PAST:
        return f"`{first}` is not an imperative"
    return None


def check(root, _args):
    log = tree.git(root, "log", "--no-merges", "-n", "500", "--format=%h %s")
    if log is None:
        print("no history here; commit titles not checked")
        return None
    problems = []
    for line in log:
        commit, _, title = line.partition(" ")
        why = problem_with(title)
        if why:
            problems.append(f"{commit}: {title}: {why}")
    return problems


def self_test():
    for title in ("fix", "Added things", "link: added a timer", "link: bound it.", "link: " + "x" * 80, "link: fixing it"):
        assert problem_with(title), title
    for title in ("link: bound the retry", "transport-ib: embed the image", "abi, sdk: name the status ranges"):
        assert not problem_with(title), title


if __name__ == "__main__":
    tree.main(check, self_test)
