#!/usr/bin/env bash
# Needs SK (sketchc), LIB (libsketchc.so), REPO (this repository), nvcc and PyTorch; about 35 s of a GPU's time.
set -u
out=${OUTDIR:-$(mktemp -d)} here=$REPO/bench/prototypes/ahead
nvcc -O3 -fmad=false -arch=sm_90a -o "$out/rows" "$here/rows.cu" && "$out/rows"
# By the compiler: as it is, and without the pass.
list=$(sed -n 's/^PASS(\([A-Z_]*\), "[a-z_]*", [a-z_]*, \(CUDA\|ALL\),.*/\1/p; s/^AGAIN(\([A-Z_]*\), \(CUDA\|ALL\))/\1/p' "$REPO/passes/passes.def" | tr 'A-Z' 'a-z' | paste -sd,)
export ARCH=sm_90a
mkdir -p "$out/f16" "$out/drawn"
python3 "$REPO/bench/kernelbench/level1.py" "$SK" --variant f16 "$out/f16"
python3 "$REPO/bench/kernelbench/drawn.py" "$SK" "$out/drawn"
for form in ahead registers; do
  passes=$list
  [ $form = registers ] && passes=${list/prefetch_rows,/}
  printf '#!/bin/sh\nexec "%s" --passes=%s "$@"\n' "$SK" "$passes" > "$out/sk"
  chmod +x "$out/sk"
  for set in kb:"$REPO/bench/kernelbench/level1/02[34]*.sketch $REPO/bench/kernelbench/level1/034*.sketch" f16:"$out/f16/023*.sketch" drawn:"$out/drawn/1007*.sketch"; do
    # shellcheck disable=SC2086
    "$REPO/bench/gpu_artifacts.sh" "$out/sk" "$out/$form/${set%%:*}" ${set#*:}
  done
  echo "== the next row: $form"
  run() { python3 "$REPO/bench/kernelbench/run.py" "$LIB" "$out/$form/$1" "$out/$form-$1.json" --samples 5 "${@:2}"; }
  run kb --only 23,24,34
  run f16 --only 23 --variant f16
  run drawn --only 1007 --drawn 20261123
done
