#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a build is made of, as SPDX 2.3 JSON: scripts/generate_sbom.py BUILD OUT

Nothing is taken from a list of what should be in it. Headers come from the dependency log of the build, shared libraries
from the dynamic sections of what is shipped, and both are turned into packages and versions by dpkg. Of the CUDA Toolkit
there is what its compiler puts into the GPU images, if there are any.
"""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import time
import uuid

# What a build folder holds besides what is shipped.
NOT_SHIPPED = re.compile(r"obj/(bench|examples|tests|modules/[^/]+/tests)/")
LICENSES = {
    "libhwy-dev": "Apache-2.0", "libspdlog-dev": "MIT", "libfmt-dev": "MIT", "libtomlplusplus-dev": "MIT",
    "libcli11-dev": "BSD-3-Clause", "nlohmann-json3-dev": "MIT", "libssl-dev": "Apache-2.0",
    "libc6-dev": "LGPL-2.1-or-later",
    "libc6": "LGPL-2.1-or-later", "linux-libc-dev": "GPL-2.0-only WITH Linux-syscall-note",
}
LICENSE_PATTERNS = [(re.compile(r"libboost[\d.]*-dev"), "BSL-1.0"),
                    (re.compile(r"lib(stdc\+\+|gcc)-(\d+-dev|s1)"), "GPL-3.0-or-later WITH GCC-exception-3.1")]
# What SPDX's own list of licences lacks.
CUDA_LICENSE = {"licenseId": "LicenseRef-NVIDIA-CUDA-EULA", "name": "End User License Agreement of the CUDA Toolkit",
                "extractedText": "https://docs.nvidia.com/cuda/eula/", "seeAlsos": ["https://docs.nvidia.com/cuda/eula/"]}


def tool(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def parse_deps(log):
    """The headers of every object in what `ninja -t deps` prints."""
    headers = collections.defaultdict(set)
    current = None
    for line in log.splitlines():
        if line.startswith("    "):
            headers[current].add(line.strip())
        elif ": #deps" in line:
            current = line.split(": #deps")[0]
    return headers


def system_headers(build):
    headers = set()
    for target, paths in parse_deps(tool("ninja", "-t", "deps", cwd=build)).items():
        if not NOT_SHIPPED.match(target):
            headers |= {os.path.realpath(path) for path in paths if path.startswith("/usr/")}
    return headers


def shipped(build):
    return (glob.glob(os.path.join(build, "bin", "starling")) + glob.glob(os.path.join(build, "lib", "*.so*")) +
            glob.glob(os.path.join(build, "lib", "starling", "*.so")))


def shared_libraries(build):
    """Paths of the libraries that the loader brings, except those shipped here."""
    found = set()
    for path in shipped(build):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", tool("readelf", "-d", "-W", path))
        places = dict(re.findall(r"^\t(\S+) => (\S+) \(", tool("ldd", path), re.M))
        found |= {os.path.realpath(places[name]) for name in needed if name in places}
    return {path for path in found if path.startswith(("/lib", "/usr/lib"))}


def owners(paths):
    """Packages that own the files. One that belongs to none ends the run: it would be missing from the list."""
    found = set()
    for path in sorted(paths):
        candidates = [path, path.removeprefix("/usr")]
        for candidate in candidates:
            result = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True, check=False)
            if result.returncode == 0:
                found |= {name.split(":")[0] for name in result.stdout.rsplit(": ", 1)[0].split(", ")}
                break
        else:
            raise SystemExit(f"generate_sbom: {path} belongs to no Debian package")
    return found


def folders_of(paths):
    """One file of every folder: a folder's headers belong together, and dpkg is asked less often."""
    return {os.path.dirname(path): path for path in sorted(paths)}.values()


def license_of(package):
    for pattern, text in LICENSE_PATTERNS:
        if pattern.fullmatch(package):
            return text
    return LICENSES.get(package, "NOASSERTION")


def cached(build, name):
    """What CMake keeps under a name, or nothing."""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        found = re.search(rf"^{name}:[A-Z]+=(.*)$", file.read(), re.M)
    return found[1] if found else ""


def cuda_toolkit(build):
    """The version of the CUDA Toolkit that GPU images of what is shipped were compiled by, or nothing without images."""
    nvcc = cached(build, "SL_NVCC")
    if not nvcc or nvcc.endswith("-NOTFOUND") or not glob.glob(os.path.join(build, "obj", "modules", "*", "*.fatbin")):
        return None
    return re.search(r"\bV([\d.]+)", tool(nvcc, "--version"))[1]


def cuda_entry(version):
    return {
        "SPDXID": "SPDXRef-cuda-toolkit", "name": "cuda-toolkit", "versionInfo": version,
        "supplier": "Organization: NVIDIA", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION", "licenseDeclared": CUDA_LICENSE["licenseId"], "copyrightText": "NOASSERTION",
        "comment": "Inline functions of its headers and of its device library, as far as GPU kernels use them. No library of "
                   "it is linked; the driver is opened at run time.",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:generic/cuda-toolkit@{version}"}],
    }


def package_entry(package):
    version, source = tool("dpkg-query", "-W", "-f", "${Version}\n${source:Package}", package).splitlines()[:2]
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", package), "name": package, "versionInfo": version,
        "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION", "licenseDeclared": license_of(package), "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:deb/debian/{package}@{version}?upstream={source}"}],
    }


def document(version, epoch, compiled_in, loaded, cuda):
    """The whole document. `compiled_in` and `loaded` are names of Debian packages, `cuda` is cuda_toolkit()'s version."""
    own = {"SPDXID": "SPDXRef-Starling", "name": "starling", "versionInfo": version,
           "supplier": "Organization: Starling", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
           "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}
    if not cuda:
        own["comment"] = "Built without a CUDA compiler: holds no GPU kernels and nothing of the CUDA Toolkit."
    entries = {package: package_entry(package) for package in sorted(compiled_in | loaded)}
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]}]
    for kind, packages in (("STATIC_LINK", compiled_in), ("DYNAMIC_LINK", loaded)):
        relations += [{"spdxElementId": own["SPDXID"], "relationshipType": kind,
                       "relatedSpdxElement": entries[package]["SPDXID"]} for package in sorted(packages)]
    if cuda:
        entries["cuda-toolkit"] = cuda_entry(cuda)
        relations.append({"spdxElementId": own["SPDXID"], "relationshipType": "STATIC_LINK",
                          "relatedSpdxElement": entries["cuda-toolkit"]["SPDXID"]})
    content = [own, *entries.values()]
    name = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"starling-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/starling-{version}-{name}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
                         "creators": ["Tool: starling-generate_sbom"]},
        "packages": content, "relationships": relations,
        **({"hasExtractedLicensingInfos": [CUDA_LICENSE]} if cuda else {}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("out")
    arguments = parser.parse_args()
    version = cached(arguments.build, "CMAKE_PROJECT_VERSION")
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    compiled_in = owners(folders_of(system_headers(arguments.build)))
    loaded = owners(shared_libraries(arguments.build))
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(document(version, epoch, compiled_in, loaded, cuda_toolkit(arguments.build)), file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
