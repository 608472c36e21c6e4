# SPDX-License-Identifier: Apache-2.0
"""`starling` and `python3 -m starling`: this process becomes the command, so that signals and launchers reach that."""
import os
import sys

from . import command


def main() -> None:
    try:
        path = command()
    except FileNotFoundError as error:
        sys.exit(f"starling: {error}")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
