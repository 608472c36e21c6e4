#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the packages of this tree twice, in two folders of different names and without the compiler cache, and compares
# them byte by byte. Exits 1, with the first file that differs, when they are not the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

WORK="$(mktemp -d "${TMPDIR:-/tmp}/starling-twice.XXXXXX")"
trap 'rm -rf "$WORK"' EXIT
export CCACHE_DISABLE=1
SOURCE_DATE_EPOCH="$(git -c safe.directory="*" log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)"
export SOURCE_DATE_EPOCH

list_files() {
  if git -c safe.directory="*" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git -c safe.directory="*" ls-files -co --exclude-standard -z
  else
    find . \( -path './build*' -o -path ./.git \) -prune -o -type f -print0
  fi
}

for folder in "$WORK/first" "$WORK/second/with-a-longer-name"; do
  mkdir -p "$folder"
  list_files | while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
    tar -C "$PWD" --null -T - -cf - | tar -C "$folder" -xf -
  # Other times than the tree's, which must leave no trace.
  find "$folder" -exec touch -d "@$((RANDOM * 40000))" {} +
  "$folder/scripts/package.sh" "$folder/packages" >"$folder.sums"
done

cat "$WORK/first.sums"
if ! cmp "$WORK/first.sums" "$WORK/second/with-a-longer-name.sums"; then
  diff "$WORK/first.sums" "$WORK/second/with-a-longer-name.sums" || true
  echo "check_reproducible: two builds of the same sources differ" >&2
  exit 1
fi
echo "check_reproducible: two builds gave the same bytes"
