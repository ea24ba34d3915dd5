#!/usr/bin/env bash
# Each variant's time and largest difference from attention in f32; then the compiler's own kernels beside PyTorch's (SK, LIB, REPO as in the environment).
set -u
cd "$(dirname "$0")" || exit 2
work=$(mktemp -d)
nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -o "$work/attention" attention.cu && timeout 100 "$work/attention"
[ -z "${REPO:-}" ] || python3 "$REPO/bench/attention.py" "$SK" "$LIB" "${OUTDIR:-$work}/attention.json" --folder "$work/kernels" --rounds 8 --seconds 60
rm -rf "$work"
