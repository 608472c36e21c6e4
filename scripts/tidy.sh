#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over every source of the tree but tests (or over those named): scripts/tidy.sh [FILE…]
# A source that passed is not looked at again until it, any of our headers, the settings or clang-tidy change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly DB=build/tidy
readonly JOBS="${SL_JOBS:-$(nproc)}"

# Hash of what every result depends on besides the source itself.
common_hash() {
  {
    clang-tidy --version
    cat .clang-tidy
    find . -path './build*' -prune -o -name '*.h' -print0 | sort -z | xargs -0r cat
  } | sha256sum | cut -c 1-16
}

tidy_one() {
  local file="$1" stamp
  stamp="$DB/passed/$COMMON-$(sha256sum <"$file" | cut -c 1-16)"
  [[ ! -e $stamp ]] || return 0
  # A bound on one file, so that a lint run always ends.
  if timeout 300 clang-tidy --quiet -p "$DB" "$file" >"$stamp.log" 2>&1; then
    mv "$stamp.log" "$stamp"
    return 0
  fi
  grep -E 'error:|warning:' "$stamp.log" || cat "$stamp.log"
  rm -f "$stamp.log"
  return 1
}

sources() {
  python3 - "$DB/compile_commands.json" <<'PY'
import json, os, sys
root = os.getcwd() + "/"
for entry in json.load(open(sys.argv[1])):
    path = entry["file"]
    if path.startswith(root) and not path.startswith(root + "build") and path.endswith(".cc") and "test" not in os.path.basename(path):
        print(path[len(root):])
PY
}

main() {
  local files=("$@")
  mkdir -p "$DB/passed"
  cmake -S . -B "$DB" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CXX_COMPILER_LAUNCHER= \
    >"$DB/configure.log" 2>&1 || { cat "$DB/configure.log" >&2; return 1; }
  ((${#files[@]})) || mapfile -t files < <(sources | sort -u)
  COMMON="$(common_hash)"
  export COMMON DB
  export -f tidy_one
  # shellcheck disable=SC2016  # the inner shell expands
  printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$JOBS" bash -c 'tidy_one "$1"' tidy ||
    { echo "tidy: problems above"; return 1; }
  echo "tidy: ${#files[@]} sources hold"
}

main "$@"
