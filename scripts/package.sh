#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Debian packages, a tarball, a Python wheel and their list of contents (SBOM), from this tree: scripts/package.sh [OUT]
# OUT is build/packages unless named. The same sources give the same bytes, wherever they lie. Where there is a CUDA
# compiler, GPU kernels are in it for every architecture that SL_CUDA_ARCHS lists.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BUILD=build/package
readonly OUT="${1:-build/packages}"
readonly JOBS="${SL_JOBS:-$(nproc)}"

# Time of the sources: the last commit's, or of the changelog where there is no history.
source_time() {
  git -c safe.directory="*" log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md
}

quietly() {
  "$@" >"$BUILD/package.log" 2>&1 || { cat "$BUILD/package.log" >&2; exit 1; }
}

# The same for what takes long: a line now and then says how far it is.
tell_progress() {
  local line due=0
  "$@" 2>&1 | tee "$BUILD/package.log" | while IFS= read -r line; do
    ((SECONDS >= due)) || continue
    echo "package: ${line:0:90}" >&2
    due=$((SECONDS + 10))
  done || { cat "$BUILD/package.log" >&2; exit 1; }
}

# cpack packs files in the order in which the folder lists them and counts the blocks they take; both differ between
# file systems.
repack_deb() {
  local tree="$BUILD/repack" kib
  rm -rf "$tree"
  dpkg-deb --raw-extract "$1" "$tree"
  kib="$(find "$tree" -type f -not -path "$tree/DEBIAN/*" -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum + 0 }')"
  sed -i "s/^Installed-Size: .*/Installed-Size: $kib/" "$tree/DEBIAN/control"
  sort -k 2 -o "$tree/DEBIAN/md5sums" "$tree/DEBIAN/md5sums"
  find "$tree" -exec touch --no-dereference -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$tree" "$1" >/dev/null
}

repack_tarball() {
  local tree="$BUILD/repack"
  rm -rf "$tree"
  mkdir "$tree"
  tar -C "$tree" -xzf "$1"
  tar -C "$tree" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - . | gzip -9n >"$1"
}

# Libraries and modules together, as docs/gpu.md promises.
check_size() {
  local bytes
  bytes="$(tar -tvzf "$1" | awk '$6 ~ /\.so/ { sum += $3 } END { print sum + 0 }')"
  echo "package: libraries and modules take $bytes bytes" >&2
  ((bytes <= 40000000)) && return
  echo "package: that is more than 40 MB; see what grew (ls -S $BUILD/lib/starling) or build for fewer SL_CUDA_ARCHS" >&2
  exit 1
}

export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(source_time)}" TZ=UTC LC_ALL=C
umask 022
mkdir -p "$BUILD" "$OUT"
quietly cmake -S . -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DSL_BUILD_TESTS=OFF -DSL_BUILD_EXTRAS=OFF -DSL_REPRODUCIBLE=ON "-DSL_CUDA_ARCHS=${SL_CUDA_ARCHS:-80;90;100}"
tell_progress ninja -C "$BUILD" -j "$JOBS"
quietly python3 -B scripts/generate_sbom.py "$BUILD" "$BUILD/sbom.spdx.json"
rm -f "$BUILD"/*.deb "$BUILD"/*.tar.gz
(cd "$BUILD" && cpack >cpack.log 2>&1) || { cat "$BUILD/cpack.log" >&2; exit 1; }
for package in "$BUILD"/*.deb; do repack_deb "$package"; done
for package in "$BUILD"/*.tar.gz; do
  repack_tarball "$package"
  check_size "$package"
done
rm -f "$OUT"/*.whl
quietly python3 -B scripts/make_wheel.py "$BUILD" "$OUT"
mv "$BUILD"/*.deb "$BUILD"/*.tar.gz "$OUT/"
cp "$BUILD/sbom.spdx.json" "$OUT/"
(cd "$OUT" && sha256sum -- *.deb *.tar.gz *.whl sbom.spdx.json)
