#!/usr/bin/env bash
# SK: sketchc, LIB: libsketchc.so, REPO: the tree, KT: kernel_tool of the same build, or PACK: a folder that `atoms.py pack` left. OUTDIR: what is kept.
set -u
out=$(realpath "${OUTDIR:-.}")
cd "$REPO" || exit 2
work=$(mktemp -d)
echo "== single instructions"
if [ -n "${PACK:-}" ]; then timeout 60 python3 tests/atoms/atoms.py . device "$SK" "$PACK"; else timeout 150 python3 tests/atoms/atoms.py . run "$KT"; fi 2>&1 | cut -c1-1500 | tail -60
echo "== code for sm_80: PTX by the driver, CUDA C by nvcc"
ls examples/{matmul_*,flash_attention*,attention_naive,conv2d_im2col,softmax,layer_norm,argmax,cumsum,sort,scatter_add,max_pool2d,cross_entropy}.sketch \
  tests/products/*.sketch | ARCH=sm_80 xargs -P "$(nproc)" -n 1 bench/gpu_artifacts.sh "$SK" "$work/older"
PATH=$REPO/bench/jit:$PATH timeout 100 python3 bench/gpu_check.py "$SK" "$work/older" "$out" --do verify --jobs 16 --seconds 40 \
  --verify-option=--max-bytes=20000000 --verify-option=--no-cache > "$out/older.log" 2>&1
tail -1 "$out/older.log"
grep FAILED "$out/older.log" | cut -c1-500 | head -20
echo "== errors against float64"
ls bench/kernelbench/level1/0{01,02,03,06,07,08,09,10,11,13,14,15,16,17,18}_*.sketch | ARCH=sm_90a xargs -P "$(nproc)" -n 1 bench/gpu_artifacts.sh "$SK" "$work/problems"
timeout 110 python3 bench/precision.py "$LIB" "$work/problems" "$out/precision.json" --seconds 60 2>&1 | cut -c1-260
echo "== drawn products"
python3 bench/kernelbench/drawn_matrix.py "$SK" "$work/sketches" --seed "${SEED:-20261123}"
ls "$work"/sketches/*.sketch | ARCH=sm_90a xargs -P "$(nproc)" -n 1 bench/gpu_artifacts.sh "$SK" "$work/drawn"
timeout 90 python3 bench/kernelbench/run.py "$LIB" "$work/drawn" "$out/drawn_matrix.json" --samples 5 --drawn "${SEED:-20261123}" --matrix --seconds 50 2>&1 | cut -c1-300
rm -rf "$work"
