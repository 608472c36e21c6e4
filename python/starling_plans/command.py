# SPDX-License-Identifier: Apache-2.0
"""Asks the `starling` command about a plan file."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile

from .text import load


class StarlingError(RuntimeError):
    """The `starling` command found something wrong, or could not be run; the text is what it said."""


def profile_of(path: str | os.PathLike[str]) -> str:
    """The text of a profile in which algo-planfile reads the plan file, or the folder of them, `path`. A plan serves its
    collective wherever it can; plans of a folder stand among the other algorithms."""
    quoted = os.path.abspath(path).replace("\\", "\\\\").replace('"', '\\"')
    text = f'profile_version = 1\n\n[modules.algo-planfile.options]\npaths = "{quoted}"\n'
    if os.path.isdir(path):
        return text
    plan = load(path)
    rule = f'op = "{plan.collective}"\nmin_ranks = {plan.ranks}\nmax_ranks = {plan.ranks}\n'
    if plan.sizes is not None:
        rule += f"min_bytes = {plan.sizes[0]}\nmax_bytes = {plan.sizes[1]}\n"
    return f'{text}\n[[select]]\n{rule}algorithm = "planfile"\n'


def _program(name: str) -> str:
    """Where the program is: in PATH; else `starling` where a wheel or an installation has it beside this package."""
    packages = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    beside = (os.path.join(packages, "starling", "bin"), os.path.join(packages, "..", "..", "..", "bin"))
    found = shutil.which(name) or (shutil.which(name, path=os.pathsep.join(beside)) if name == "starling" else None)
    if found is None:
        raise StarlingError(f"there is no program {name}; install Starling, or name its bin/starling")
    return found


def verify(path: str | os.PathLike[str], starling: str = "starling", timeout_s: float = 600) -> str:
    """Has `starling verify` prove that the plan file computes its collective; what it said. StarlingError holds the
    counter-example when it does not. `starling` is a path, or a program in PATH or of this installation."""
    plan = load(path)
    program = _program(starling)
    with tempfile.TemporaryDirectory(prefix="starling-plans.") as folder:
        profile = os.path.join(folder, "plan.toml")
        with open(profile, "w", encoding="utf-8") as file:
            file.write(profile_of(path))
        command = [program, "verify", "--ranks", str(plan.ranks), "--algorithm", "planfile", "--collective", plan.collective]
        try:
            result = subprocess.run(command, env={**os.environ, "STARLING_PROFILE": profile}, text=True,
                                    timeout=timeout_s, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        except subprocess.TimeoutExpired:
            raise StarlingError(f"{' '.join(command)} did not end within {timeout_s:g} s") from None
    if result.returncode != 0:
        raise StarlingError(result.stdout.strip() or f"{' '.join(command)} ended with {result.returncode}")
    if re.search(r"^0 cases proved", result.stdout, re.M):
        raise StarlingError(f"nothing was proved: {path} serves no case\n{result.stdout.strip()}")
    return result.stdout
