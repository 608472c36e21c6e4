# SPDX-License-Identifier: Apache-2.0
"""python3 -m starling_plans print|draw|profile|verify: exit codes are 0 good, 1 a wrong plan, 2 bad usage."""
from __future__ import annotations

import argparse
import sys

from .command import StarlingError, profile_of, verify
from .draw import to_svg
from .plan import PlanError
from .text import load, to_text
from .trace import trace


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="starling_plans", description="Looks at plan files (docs/plan-file.md).")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("print", help="the plan, every step with the number that messages give it")
    verb.add_argument("file")
    verb = verbs.add_parser("draw", help="one round of the plan as an SVG picture")
    verb.add_argument("file")
    verb.add_argument("picture")
    verb = verbs.add_parser("profile", help="a profile in which algo-planfile reads a plan file or a folder of them")
    verb.add_argument("path")
    verb = verbs.add_parser("verify", help="a proof, by `starling verify`, that the plan computes its collective")
    verb.add_argument("file")
    verb.add_argument("--starling", default="starling",
                      help="the command (one of this name in PATH, else that of this installation)")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    arguments = _arguments(words)
    try:
        if arguments.verb == "print":
            plan = load(arguments.file)
            print(to_text(plan, numbered=True), end="")
            ticks = max((event.tick for event in trace(plan)), default=-1) + 1
            print(f"\n# one round takes {ticks} ticks when every step takes one")
        elif arguments.verb == "draw":
            picture = to_svg(load(arguments.file))
            with open(arguments.picture, "w", encoding="utf-8") as file:
                file.write(picture)
        elif arguments.verb == "profile":
            print(profile_of(arguments.path), end="")
        else:
            print(verify(arguments.file, arguments.starling), end="")
    except (PlanError, StarlingError, OSError) as error:
        print(f"starling_plans {arguments.verb}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
