#!/usr/bin/env bash
# README.md. SK: sketchc, LIB: libsketchc.so, REPO: the tree whose bench/kernelbench is run, OUTDIR: for results. Needs nvcc, ncu, PyTorch.
set -u
cd "$(dirname "$0")"
out=${OUTDIR:-.} folder=$(mktemp -d) level1=$REPO/bench/kernelbench/level1
run="python3 $REPO/bench/kernelbench/run.py $LIB"
nvcc -O3 -arch=sm_90a depthwise.cu -o "$folder/depthwise" &

artifacts() { # folder, sketches: commands that make them
  for file in "${@:2}"; do
    name=$(basename "$file" .sketch)
    echo "$SK $file -t nvptx --arch=sm_90a --emit=artifact -q -o $folder/$1/$name.ptx.ska"
    echo "$SK $file -t cuda --arch=sm_90a --emit=artifact -q -o $folder/$1/$name.cu.ska"
  done
}
variant() { # folder, expression of sed, sketches
  mkdir -p "$folder/$1"
  for file in "${@:3}"; do sed -E "$2" "$file" >"$folder/$1/$(basename "$file")"; done
  artifacts "$1" "$folder/$1"/*.sketch
}
depthwise=("$level1"/08[2345]_*.sketch) phased=("$level1"/0{72,73,75,77,79,81}_*.sketch)
{
  mkdir -p "$folder/now"
  artifacts now "$level1"/0{57,64,69,71,74,78}_*.sketch "${phased[@]}" "${depthwise[@]}"
  for rows in 16 64 128; do variant "rows$rows" "s/R = [0-9]+, T = 64/R = $rows, T = 64/" "${depthwise[@]}"; done
  variant columns128 "s/T = 64;/T = 128;/" "${depthwise[@]}"
  variant positions64 "s/BN = 128/BN = 64/; s/ST = 2/ST = 3/" "${phased[@]}"
  variant stages2 "s/ST = 3/ST = 2/" "${phased[@]}"
} | xargs -P 16 -I{} bash -c '{}'
wait
$run "$folder/now" "$out/now.json" --samples 3 --only 57,64,69,71,72,73,74,75,77,78,79,81,82,83,84,85 | grep " ms "
for v in rows16 rows64 rows128 columns128; do echo "== $v" && $run "$folder/$v" "$out/$v.json" --samples 3 --only 82,83,85 | grep " ms "; done
for v in positions64 stages2; do echo "== $v" && $run "$folder/$v" "$out/$v.json" --samples 3 --only 73,75,77,79,81 | grep " ms "; done
python3 launches.py "$REPO" "$LIB" "$folder/now" ptx 73,79,81,75,77,72,71,57
timeout 30 "$folder/depthwise"
rm -rf "$folder"
