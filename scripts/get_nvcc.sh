#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks NVIDIA's CUDA compiler from its Python wheels: scripts/get_nvcc.sh FOLDER [WHEELS [LIST]]
# FOLDER becomes a toolkit (FOLDER/bin/nvcc and what that needs), replaced as a whole or not at all. The wheels come from
# PyPI, or from the folder WHEELS without any network. LIST, nvcc-wheels.txt beside this script unless named, pins their
# versions and hashes. A folder made from the same list is left as it is.
set -euo pipefail

if (($# < 1 || $# > 3)); then
  echo "usage: scripts/get_nvcc.sh FOLDER [WHEELS [LIST]]" >&2
  exit 2
fi
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly HERE FOLDER="$1" WHEELS="${2-}" LIST="${3-$HERE/nvcc-wheels.txt}" NEW="$1.new"

die() {
  printf 'get_nvcc: %s\n' "$*" >&2
  cat >&2 <<TEXT
Other ways to a CUDA compiler:
  a toolkit of this machine (12 or newer):  CUDA_HOME=/path/of/the/toolkit ./run build
  wheels brought here from another machine:   ./run build --cuda WHEELS, where WHEELS is the folder that
    python3 -m pip download --no-deps --require-hashes -r scripts/nvcc-wheels.txt -d WHEELS   wrote there
TEXT
  exit 1
}

if [[ -x $FOLDER/bin/nvcc ]] && cmp -s "$LIST" "$FOLDER/wheels.txt"; then exit 0; fi

source=(--timeout 20 --retries 2)
if [[ -n $WHEELS ]]; then
  [[ -d $WHEELS ]] || die "there is no folder $WHEELS"
  source=(--no-index --find-links "$WHEELS")
fi
python3 -c 'import pip' 2>/dev/null || die "python3 has no pip here (Debian's package python3-pip)"

rm -rf "$NEW"
mkdir -p "$NEW"
trap 'rm -rf "$NEW"' EXIT
# Into a folder of their own: nothing is installed into this machine's Python.
export PIP_USER=0 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m pip install --target "$NEW/wheels" --require-hashes --no-deps --only-binary :all: --no-compile --quiet \
  "${source[@]}" --requirement "$LIST" >"$NEW/log" 2>&1 || {
  cat "$NEW/log" >&2
  die "the wheels of $LIST could not be had from ${WHEELS:-PyPI}; pip's words are above"
}

# The wheels of one release of CUDA share one tree, nvidia/cu13; what else they bring are licences and versions.
tree=("$NEW"/wheels/nvidia/*/bin/nvcc)
[[ -x ${tree[0]} ]] || die "the wheels of $LIST hold no nvidia/*/bin/nvcc"
mv "${tree[0]%/bin/nvcc}" "$NEW/toolkit"
mv "$NEW"/wheels/*.dist-info "$NEW/toolkit/"
cp "$LIST" "$NEW/toolkit/wheels.txt"
rm -rf "$FOLDER"
mv "$NEW/toolkit" "$FOLDER"
