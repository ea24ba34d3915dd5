#!/usr/bin/env bash
# Compiles sketches to artifacts for bench/gpu_check.py: NAME.ptx.ska and NAME.cu.ska each.
#   gpu_artifacts.sh SKETCHC OUT_FOLDER FILE.sketch...      (ARCH=sm_90a unless set)
# With BY_FOLDER=1 the file's folder is part of the name (windows.joined.ptx.ska): where files of several folders have one name.
set -u
sketchc=$1 out=$2
shift 2
mkdir -p "$out"
bad=0
for file in "$@"; do
  name=$(basename "$file" .sketch)
  [ -z "${BY_FOLDER:-}" ] || name=$(basename "$(dirname "$file")").$name
  "$sketchc" "$file" -t nvptx --arch="${ARCH:-sm_90a}" --emit=artifact -q -o "$out/$name.ptx.ska" &&
    "$sketchc" "$file" -t cuda --arch="${ARCH:-sm_90a}" --emit=artifact -q -o "$out/$name.cu.ska" || {
    echo "$name: not compiled"
    rm -f "$out/$name.ptx.ska" "$out/$name.cu.ska"
    bad=1
  }
done
exit $bad
