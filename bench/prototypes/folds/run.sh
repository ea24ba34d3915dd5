#!/usr/bin/env bash
# SK, LIB, REPO, OUTDIR as for all prototypes; about 30 s of a GPU. README.md says what it decides.
set -u
kb=$REPO/bench/kernelbench
work=$(mktemp -d)
problems() { # FOLDER RUN_OPTIONS...
  ARCH=sm_90a "$REPO"/bench/gpu_artifacts.sh "$SK" "$work/a_$1" "$work/$1"/*.sketch >/dev/null 2>&1
  python3 "$kb"/run.py "$LIB" "$work/a_$1" "${OUTDIR:-$work}/folds_$1.json" --samples 5 "${@:2}"
}
mkdir -p "$work/full" "$work/drawn" "$work/f16"
for n in 023 024 034 038 039 040 047 048 049 051 089 091 092 093 095 098 099 100; do cp "$kb"/level1/${n}_*.sketch "$work/full"; done
python3 "$kb"/drawn.py "$SK" "$work/drawn"
python3 "$kb"/level1.py "$SK" --variant f16 "$work/f16" >/dev/null
problems full --only 23,24,34,38,39,40,47,48,49,51,89,91,92,93,95,98,99,100
problems drawn --drawn 20261123 --only 1002,1005,1006,1009,1013,1016
problems f16 --variant f16 --only 47,89,94
