#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD PREFIX: installs somewhere else and moves the result to PREFIX, so that nothing that works there can
# come from a path that was written down.
set -euo pipefail
readonly build="$1" prefix="$2"
rm -rf "$prefix" "$prefix.staged"
cmake --install "$build" --prefix "$prefix.staged" >/dev/null
mv "$prefix.staged" "$prefix"
