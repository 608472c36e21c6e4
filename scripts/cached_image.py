#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a GPU image, or takes it from a cache: scripts/cached_image.py NVCC ARGUMENT… -MF DEPENDENCIES -o IMAGE SOURCE.

ccache does not serve nvcc's -fatbin. An image depends on nvcc, its arguments, and the source with all that it includes:
their hash names the image in ~/.cache/starling/images (XDG_CACHE_HOME). Checkouts of one user share it: where files lie is
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


def name_of(nvcc, arguments, read):
    """A name for what these arguments make of these files, wherever the files lie."""
    version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    flags = [argument for argument in arguments if not argument.startswith(("/", "-I"))]
    digest = hashlib.sha256("\0".join([version, *flags]).encode())
    for path in read:
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()[:40]


def drop_old():
    now = time.time()
    for entry in os.scandir(CACHE):
        if now - entry.stat().st_mtime > KEPT_SECONDS:
            os.unlink(entry.path)


def put(path, kept):
    """Copies into the cache so that nobody finds half a file."""
    os.makedirs(CACHE, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=CACHE)
    os.close(handle)
    shutil.copyfile(path, temporary)
    os.replace(temporary, kept)
    drop_old()


def main():
    nvcc, *arguments = sys.argv[1:]
    image, listing, source = (arguments[arguments.index("-o") + 1], arguments[arguments.index("-MF") + 1], arguments[-1])
    if os.environ.get("CCACHE_DISABLE"):
        return subprocess.run([nvcc, *arguments], check=False).returncode
    try:
        read = dependencies(nvcc, arguments, source)
        kept = os.path.join(CACHE, name_of(nvcc, arguments, read))
    except (subprocess.CalledProcessError, OSError):
        kept = None  # the compiler has the better words for what is wrong
    if kept and os.path.exists(kept):
        shutil.copyfile(kept, image)
        os.utime(kept)
        with open(listing, "w", encoding="utf-8") as file:
            file.write(f"{image} : {' '.join(read)}\n")
        return 0
    status = subprocess.run([nvcc, *arguments], check=False).returncode
    if status == 0 and kept:
        try:
            put(image, kept)
        except OSError as error:  # a full disk, say: the image is there all the same
            print(f"cached_image: {kept}: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
