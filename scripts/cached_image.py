#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a GPU image, or takes it from a cache: scripts/cached_image.py NVCC ARGUMENT… -MF DEPENDENCIES -o IMAGE SOURCE.

ccache does not serve nvcc's -fatbin. An image depends on the compiler, its arguments and variables, and the source with all
that it includes: their hash names the image in ~/.cache/starling/images (XDG_CACHE_HOME). Checkouts of one user share it: where files lie is
not part of the name, as only line tables tell it. Images that nobody took for 30 days are deleted.
CCACHE_DISABLE=1 switches this cache off, too.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "starling", "images")
KEPT_SECONDS = 30 * 24 * 3600


def dependencies(nvcc, arguments, source):
    """Every file that the preprocessor reads for the source, itself first."""
    drop = set()
    for index, argument in enumerate(arguments):
        if argument in ("-MF", "-o"):
            drop |= {index, index + 1}
        elif argument in ("-MD", "-fatbin") or argument.startswith("-Xfatbin"):
            drop.add(index)
    kept = [argument for index, argument in enumerate(arguments) if index not in drop]
    rule = subprocess.run([nvcc, "-M", *kept], check=True, capture_output=True, text=True).stdout
    return [source, *sorted(set(rule.replace("\\\n", " ").split(":", 1)[1].split()) - {source})]


def programs(nvcc):
    """What compiles: nvcc and those that it starts, which may come from packages of their own. By size and time."""
    home = os.path.dirname(os.path.realpath(nvcc))
    found = [os.path.join(home, name) for name in ("nvcc", "ptxas", "fatbinary", "../nvvm/bin/cicc", "cicc")]
    return [f"{os.path.basename(path)} {os.stat(path).st_size} {os.stat(path).st_mtime_ns}"
            for path in [os.path.realpath(nvcc), *found] if os.path.exists(path)]


def name_of(nvcc, arguments, read):
    """A name for what these arguments make of these files, wherever the files lie."""
    version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    flags = [argument for argument in arguments if not argument.startswith(("/", "-I"))]
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NVCC_"))
    digest = hashlib.sha256("\0".join([version, *programs(nvcc), *flags, *variables]).encode())
    for path in read:
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()[:40]


def drop_old():
    now = time.time()
    for entry in os.scandir(CACHE):
        try:
            if now - entry.stat().st_mtime > KEPT_SECONDS:
                os.unlink(entry.path)
        except FileNotFoundError:
            pass  # another build was quicker


def put(path, kept):
    """Copies into the cache so that nobody finds half a file."""
    os.makedirs(CACHE, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=CACHE)
    os.close(handle)
    try:
        shutil.copyfile(path, temporary)
        os.replace(temporary, kept)
    except OSError:
        os.unlink(temporary)
        raise
    drop_old()


def take(kept, image):
    """Whether the cache had it. What it has and cannot be read, as another user's, it has not."""
    try:
        shutil.copyfile(kept, image)
        os.utime(kept)
    except OSError:
        return False
    return True


def main():
    nvcc, *arguments = sys.argv[1:]
    image, listing, source = (arguments[arguments.index("-o") + 1], arguments[arguments.index("-MF") + 1], arguments[-1])
    if os.environ.get("CCACHE_DISABLE"):
        return subprocess.run([nvcc, *arguments], check=False).returncode
    try:
        read = dependencies(nvcc, arguments, source)
        name = name_of(nvcc, arguments, read)
    except (subprocess.CalledProcessError, OSError):
        name = None  # the compiler has the better words for what is wrong
    if name and take(os.path.join(CACHE, name), image):
        with open(listing, "w", encoding="utf-8") as file:
            file.write(f"{image} : {' '.join(read)}\n")
        return 0
    status = subprocess.run([nvcc, *arguments], check=False).returncode
    try:
        # Only what was compiled of the files that were hashed: somebody may have edited one meanwhile.
        if status == 0 and name and name_of(nvcc, arguments, dependencies(nvcc, arguments, source)) == name:
            put(image, os.path.join(CACHE, name))
    except (subprocess.CalledProcessError, OSError) as error:  # a full disk, say: the image is there all the same
        print(f"cached_image: {source} is not kept: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
