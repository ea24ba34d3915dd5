#!/usr/bin/env bash
# Variants of problems 42, 43, 45 and 46 by their constexprs; README.md says what each decides.
set -u
bench=$REPO/bench out=${OUTDIR:-.}/windows
make() { # folder Z43 Z46 R T43 T46
  mkdir -p "$out/$1/s"
  sed "s/Z = [0-9]*, R = [0-9]*, T = [0-9]*/Z = $2, R = $4, T = $5/" "$bench/kernelbench/level1/043_max_pool3d.sketch" >"$out/$1/s/043_max_pool3d.sketch"
  sed "s/Z = [0-9]*, R = [0-9]*, T = [0-9]*/Z = $3, R = $4, T = $6/" "$bench/kernelbench/level1/046_avg_pool3d.sketch" >"$out/$1/s/046_avg_pool3d.sketch"
  ARCH=sm_90a bash "$bench/gpu_artifacts.sh" "$SK" "$out/$1/a" "$out/$1"/s/*.sketch
}
timed() { # folder options...
  echo "== $*"
  local folder=$1
  shift
  timeout 120 python3 "$bench/kernelbench/run.py" "$LIB" "$out/$folder/a" "$out/$folder.json" --samples 3 "$@" 2>&1 | grep -E "pool|window|verified"
}
make base 32 16 16 32 32
make z16 16 8 16 32 32
make z64 64 64 16 32 32
make t64 32 16 16 64 64
make r8 32 16 8 32 64
for variant in base z16 z64 t64 r8; do timed "$variant" --only 43,46; done
for variant in base z16; do timed "$variant" --only 43,46 --case part; done
timed base --only 43,46 --case ragged
rows() { # folder Z42 T42 Z45 T45
  mkdir -p "$out/$1/s"
  sed "s/Z = [0-9]*, T = [0-9]*/Z = $2, T = $3/" "$bench/kernelbench/level1/042_max_pool2d.sketch" >"$out/$1/s/042_max_pool2d.sketch"
  sed "s/Z = [0-9]*, T = [0-9]*/Z = $4, T = $5/" "$bench/kernelbench/level1/045_avg_pool2d.sketch" >"$out/$1/s/045_avg_pool2d.sketch"
  ARCH=sm_90a bash "$bench/gpu_artifacts.sh" "$SK" "$out/$1/a" "$out/$1"/s/*.sketch
}
rows rows 64 128 5 64
rows long 512 128 32 64
rows short 32 128 2 64
rows wide 64 256 5 128
for variant in rows long short wide; do timed "$variant" --only 42,45; done
for variant in rows short; do timed "$variant" --only 42,45 --case ragged; done
mkdir -p "$out/drawn"
python3 "$bench/kernelbench/drawn.py" --seed 20261123 "$SK" "$out/drawn/s" >/dev/null
ARCH=sm_90a bash "$bench/gpu_artifacts.sh" "$SK" "$out/drawn/a" "$out"/drawn/s/1003_* "$out"/drawn/s/1010_* "$out"/drawn/s/1014_*
timed drawn --drawn 20261123 --only 1003,1010,1014
