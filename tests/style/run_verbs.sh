#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./run answers bad usage with 2, and verbs of later parts with one line and 0.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

failed=0
expect() {
  local wanted="$1" lines="$2" out rc
  shift 2
  out="$(./run "$@" 2>&1)"
  rc=$?
  if ((rc != wanted)) || { ((lines)) && (($(wc -l <<<"$out") != lines)); }; then
    printf './run %s: exit %d (wanted %d), said:\n%s\n' "$*" "$rc" "$wanted" "$out"
    failed=1
  fi
}

expect 2 0
expect 2 0 no-such-verb
expect 2 0 test extra
expect 2 0 build --gpu
expect 2 0 build --cuda wheels extra
expect 2 0 need_build
for verb in vm-test diagnose; do
  expect 0 1 "$verb"
done
exit "$failed"
