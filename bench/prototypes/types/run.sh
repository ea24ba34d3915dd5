#!/usr/bin/env bash
# Environment: SK (sketchc), LIB (libsketchc.so), REPO (the tree); nvcc and PyTorch. README.md says what it decides.
set -eu
here=$(cd "$(dirname "$0")" && pwd) work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
nvcc -O2 -arch=sm_90a "$here/approximations.cu" -o "$work/approximations" && "$work/approximations"
for type in f16 bf16; do
  mkdir "$work/$type"
  python3 "$REPO/bench/kernelbench/level1.py" "$SK" --variant "$type" "$work/$type" > "$work/log"
  ARCH=sm_90a "$REPO/bench/gpu_artifacts.sh" "$SK" "$work/$type.ska" "$work/$type"/{021,023,026}*.sketch
  echo "== $type"
  python3 "$REPO/bench/kernelbench/run.py" "$LIB" "$work/$type.ska" "$work/$type.json" --samples 5 --only 21,23,26 --variant "$type"
done
ARCH=sm_90a "$REPO/bench/gpu_artifacts.sh" "$SK" "$work/f32.ska" "$REPO"/bench/kernelbench/level1/{022,026,029,088,098}*.sketch
echo "== f32"
python3 "$REPO/bench/kernelbench/run.py" "$LIB" "$work/f32.ska" "$work/f32.json" --samples 5 --only 22,26,29,88,98
