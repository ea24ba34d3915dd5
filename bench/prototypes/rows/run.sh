#!/usr/bin/env bash
# Rows of any length and number, by this compiler and, with OLD (another sketchc), by that one; README.md says what each line decides.
set -u
bench=$REPO/bench out=${OUTDIR:-.}/rows seed=327377
ids=1003,1007,1009,1010,1013,1015 # drawn
level=23,24,34,36,38,39,40,42,100
timed() { # folder options...
  echo "== $*"
  local folder=$1
  shift
  timeout 150 python3 "$bench/kernelbench/run.py" "$LIB" "$out/$folder/a" "$out/$folder.json" --samples 5 "$@" 2>&1 | grep -E "^ *[0-9]+ |verified"
}
artifacts() { # compiler folder sketches...
  local sk=$1 folder=$2
  shift 2
  ARCH=sm_90a bash "$bench/gpu_artifacts.sh" "$sk" "$out/$folder/a" "$@" >/dev/null
}
mkdir -p "$out/s"
python3 "$bench/kernelbench/drawn.py" --seed $seed "$SK" "$out/s"
compare() { # name compiler
  artifacts "$2" "drawn_$1" "$out"/s/10{03,07,09,10,13,15}_*
  artifacts "$2" "level_$1" "$bench"/kernelbench/level1/{023,024,034,036,038,039,040,042,100}_*
  timed "drawn_$1" --drawn $seed --only $ids
  timed "level_$1" --only $level
  timed "level_$1" --only 34,40,42,100 --case part
}
compare new "$SK"
[ -n "${OLD:-}" ] && compare old "$OLD"
for tile in 256 512; do # rows of max_pool2d by 2 and 4 warps: results of a row's end and of the next one's begin from one block
  mkdir -p "$out/t$tile/s"
  sed "s/Z = [0-9]*, T = [0-9]*/Z = 64, T = $tile/" "$bench/kernelbench/level1/042_max_pool2d.sketch" >"$out/t$tile/s/042_max_pool2d.sketch"
  artifacts "$SK" "t$tile" "$out/t$tile/s/"*.sketch
  timed "t$tile" --only 42
done
