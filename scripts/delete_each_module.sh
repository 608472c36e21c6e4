#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The test of the dependency rules: without any one module folder everything else still configures and builds.
#
#   scripts/delete_each_module.sh                 every module in turn
#   scripts/delete_each_module.sh NAME…           these
#   scripts/delete_each_module.sh --one-in-turn   one, picked by the current commit (by the day where there is no git)
#
# Works on a copy in a temporary folder; the compiler cache makes all but the first build quick.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly ROOT="$PWD"
readonly JOBS="${SL_JOBS:-$(nproc)}"
COPY="$(mktemp -d "${TMPDIR:-/tmp}/starling-delete.XXXXXX")"
trap 'rm -rf "$COPY"' EXIT
# Paths below the copy are hashed relative to it, so that the cache of the real tree serves it too.
export CCACHE_BASEDIR="$COPY/tree" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

modules() {
  local list
  for list in modules/*/CMakeLists.txt; do
    [[ -f $list ]] && basename "$(dirname "$list")"
  done
}

one_in_turn() {
  local all number
  mapfile -t all < <(modules)
  ((${#all[@]})) || return 0
  number="$(git -c safe.directory="*" rev-parse --short=7 HEAD 2>/dev/null)" && number=$((16#$number)) || number=$((10#$(date +%j)))
  echo "${all[number % ${#all[@]}]}"
}

list_files() {
  if git -c safe.directory="*" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git -c safe.directory="*" ls-files -co --exclude-standard -z
  else
    find . \( -path './build*' -o -path ./.git \) -prune -o -type f -print0
  fi
}

copy_tree() {
  mkdir "$COPY/tree"
  # A file deleted in the working tree is still listed by git.
  list_files | while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
    tar -C "$ROOT" --null -T - -cf - | tar -C "$COPY/tree" -xf -
}

build_without() {
  local module="$1" start=$SECONDS
  [[ -d $COPY/tree/modules/$module ]] || { echo "delete_each_module: no module $module" >&2; return 1; }
  mv "$COPY/tree/modules/$module" "$COPY/deleted"
  local good=yes
  { cmake -S "$COPY/tree" -B "$COPY/tree/build" -G Ninja && ninja -C "$COPY/tree/build" -j "$JOBS"; } \
    >"$COPY/log" 2>&1 || good=no
  mv "$COPY/deleted" "$COPY/tree/modules/$module"
  if [[ $good == no ]]; then
    grep -v '^\[[0-9]*/[0-9]*\] ' "$COPY/log" | tail -n 40
    printf 'without %-20s does NOT build\n' "$module"
    return 1
  fi
  printf 'without %-20s builds (%d s)\n' "$module" $((SECONDS - start))
}

main() {
  local names=("$@") failed=0 name
  if [[ ${1:-} == --one-in-turn ]]; then
    mapfile -t names < <(one_in_turn)
  elif (($# == 0)); then
    mapfile -t names < <(modules)
  fi
  ((${#names[@]})) || { echo "delete_each_module: no modules in this tree"; return 0; }
  copy_tree
  for name in "${names[@]}"; do
    build_without "$name" || failed=1
  done
  return "$failed"
}

main "$@"
