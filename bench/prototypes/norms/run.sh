#!/usr/bin/env bash
# Needs SK (sketchc), LIB (libsketchc.so), REPO (this repository) and PyTorch; about 20 s of a GPU's time. README.md says what it decides.
set -u
out=${OUTDIR:-$(mktemp -d)} kb=$REPO/bench/kernelbench
list=$(sed -n 's/^PASS(\([A-Z_]*\), "[a-z_]*", [a-z_]*, \(CUDA\|ALL\),.*/\1/p; s/^AGAIN(\([A-Z_]*\), \(CUDA\|ALL\))/\1/p' "$REPO/passes/passes.def" | tr 'A-Z' 'a-z' | paste -sd,)
export ARCH=sm_90a
for form in together apart; do
  passes=$list
  [ $form = apart ] && passes=${list/cooperative_row_reduction,/}
  printf '#!/bin/sh\nexec "%s" --passes=%s "$@"\n' "$SK" "$passes" > "$out/sk"
  chmod +x "$out/sk"
  "$REPO/bench/gpu_artifacts.sh" "$out/sk" "$out/$form" "$kb"/level1/033*.sketch "$kb"/level1/035*.sketch
  echo "== blocks of a row: $form"
  python3 "$kb/run.py" "$LIB" "$out/$form" "$out/$form.json" --samples 5 --only 33,35
  for case in full part; do
    echo "-- $case"
    "$SK" bench "$kb/level1/035_group_norm.sketch" --arch=sm_90a --passes="$passes" --case=$case
    "$SK" bench "$kb/level1/033_batch_norm.sketch" --arch=sm_90a --passes="$passes" --case=$case
  done
done
