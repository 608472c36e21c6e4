# SPDX-License-Identifier: Apache-2.0
"""Where a Python wheel of Starling has put its files.

    import starling

    subprocess.run([starling.command(), "run", "--", "python3", "train.py"])
    os.environ["LD_PRELOAD"] = starling.library()  # of programs that are started from here

The wheel installs the program `starling`, too, which is the same command. Importing this package loads nothing: the
library of a process is chosen when it starts.
"""
import importlib.metadata
import os

__all__ = ["command", "library", "prefix"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        return importlib.metadata.version("starling")
    raise AttributeError(f"module starling has no attribute {name}")


def prefix() -> str:
    """The folder in which bin/, lib/ and share/ of the installation lie."""
    return os.path.dirname(os.path.realpath(__file__))


def _part(*names: str) -> str:
    path = os.path.join(prefix(), *names)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} is missing; install the wheel that ./run package makes, this folder is not one")
    return path


def command() -> str:
    """The path of the `starling` command, a program that needs no Python."""
    return _part("bin", "starling")


def library() -> str:
    """The path of the drop-in, libnccl.so.2, to be preloaded or opened."""
    return _part("lib", "starling", "nccl", "libnccl.so.2")
