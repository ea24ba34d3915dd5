#!/usr/bin/env bash
# Everything that docs/performance.md and bench/results/*-h200-* are made from, on a machine with a GPU and PyTorch.
#   measure.sh SKETCHC LIBSKETCHC OUT [PART...]      all parts unless some are named; SEED=N for what is drawn, ARCH=sm_90a
#
# compile     artifacts of all sketches and problems, made side by side (no GPU is needed for this part), and predictions.json
# check       every example and sketch of the tests: all cases up to 600 MB and ragged sizes through both forms, bit for bit; compute-sanitizer
# atoms       the kernels of single instructions (tests/atoms), by kernel_tool of the same build, or KERNEL_TOOL
# older       code for sm_80 of the same sketches: PTX by the driver's own compiler (bench/jit), CUDA C by nvcc for the device
# precision   errors of f32 products against float64 beside SGEMM's             precision.json
# problems    KernelBench level 1 beside PyTorch eager and torch.compile        kernelbench.json, convolutions.json, calibration.json
# drawn       problems drawn by SEED, which is the commit's unless given        drawn.json, drawn_matrix.json
# variants    ten problems with tensors of f16 and of bf16                      f16.json, bf16.json
# sizes       a 64th of the size, odd extents                                   part.json, ragged.json
# dram        bytes of device memory by ncu                                     dram.json
# gemm        products beside cuBLAS and cuBLASLt                               gemm.json
# attention   f16 and bf16 beside scaled_dot_product_attention's backends       attention.json
# search      searches for six operators, start and winner in turns             search/
#
# CHECK_OPTIONS are more options for gpu_check.py (--seconds=300: what has not begun by then is left out and told; --only=FOLDER.NAME,...).
# A part goes on when one before it failed; OUT/PART.log has what each said, the last line here names what failed. Then:
#   bench/kernelbench/report.py OUT --older bench/results/OLDER > docs/performance.md
set -u
if [ $# -lt 3 ]; then
  sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "$0"
  exit 2
fi
here=$(cd "$(dirname "$0")/.." && pwd)
sketchc=$(realpath "$1") library=$(realpath "$2")
mkdir -p "$3" && out=$(realpath "$3")
shift 3
cd "$here" || exit 2
export ARCH=${ARCH:-sm_90a}
commit=$(git rev-parse HEAD 2> /dev/null)
[ -n "$commit" ] || [ -n "${SEED:-}" ] || {
  echo "there is no commit to take the seed from: set SEED"
  exit 2
}
seed=${SEED:-$((16#${commit:0:7}))}
work=$out/work
mkdir -p "$work"

files() { # the sketches that gpu_check verifies: all of these folders with an operator but the one that asks for a core's scratch memory
  find examples tests/{sketches,access,bugs,products,verify} -name "*.sketch" -not -name "*scratch-of-a-core*" -exec grep -l "^operator" {} + | sort
}

artifacts() { # FOLDER FILE...: side by side
  local folder=$1
  shift
  printf '%s\n' "$@" | xargs -P "$(nproc)" -n 2 bench/gpu_artifacts.sh "$sketchc" "$work/$folder"
}

compile() {
  local kb=bench/kernelbench status=0
  # shellcheck disable=SC2046
  BY_FOLDER=1 artifacts all $(files) || status=1
  artifacts problems $kb/level1/*.sketch || status=1
  python3 $kb/drawn.py "$sketchc" "$work/drawn_sketches" --seed "$seed" && artifacts drawn "$work"/drawn_sketches/*.sketch || status=1
  python3 $kb/drawn_matrix.py "$sketchc" "$work/matrix_sketches" --seed "$seed" && artifacts drawn "$work"/matrix_sketches/*.sketch || status=1
  for type in f16 bf16; do
    python3 $kb/level1.py "$sketchc" --variant $type "$work/${type}_sketches" && artifacts $type "$work/${type}_sketches"/*.sketch || status=1
  done
  python3 $kb/report.py "$out" --predict "$sketchc" --predict-only || status=1
  return $status
}

check() {
  mkdir -p "$out/check"
  # shellcheck disable=SC2086
  python3 bench/gpu_check.py "$sketchc" "$work/all" "$out/check" --do verify,sanitize --jobs 12 --batch 8 --verify-option=--max-bytes=600000000 ${CHECK_OPTIONS:-}
}

atoms() { python3 tests/atoms/atoms.py . run "${KERNEL_TOOL:-$(dirname "$sketchc")/tests/tools/kernel_tool}"; }

older() {
  local status=0
  # shellcheck disable=SC2046
  ARCH=sm_80 BY_FOLDER=1 artifacts older $(files | grep -v /warpgroups/) || status=1
  mkdir -p "$out/older"
  # shellcheck disable=SC2086
  PATH=$here/bench/jit:$PATH python3 bench/gpu_check.py "$sketchc" "$work/older" "$out/older" --do verify --jobs 12 \
    --verify-option=--max-bytes=100000000 ${CHECK_OPTIONS:-} || status=1
  return $status
}

precision() { python3 bench/precision.py "$library" "$work/problems" "$out/precision.json"; }

ids() { # OF: convolution, bound (by memory) or all but convolutions
  python3 - "$1" <<'PY'
import sys
sys.path.insert(0, "bench/kernelbench")
from level1 import PROBLEMS
wanted = {"convolution": lambda g: g == "convolution", "others": lambda g: g != "convolution",
          "bound": lambda g: g not in ("matmul", "convolution", "attention")}[sys.argv[1]]
print(",".join(str(n) for n, p in PROBLEMS.items() if wanted(p["group"])))
PY
}

problems() {
  "$sketchc" calibrate --json > "$out/calibration.json" || return 1
  python3 bench/kernelbench/run.py "$library" "$work/problems" "$out/kernelbench.json" --samples 7 --compile --only "$(ids others)"
  local status=$?
  python3 bench/kernelbench/run.py "$library" "$work/problems" "$out/convolutions.json" --samples 5 --only "$(ids convolution)" && return $status
}

drawn() {
  python3 bench/kernelbench/run.py "$library" "$work/drawn" "$out/drawn.json" --samples 7 --drawn "$seed"
  local status=$?
  python3 bench/kernelbench/run.py "$library" "$work/drawn" "$out/drawn_matrix.json" --samples 7 --drawn "$seed" --matrix && return $status
}

variants() {
  local status=0
  for type in f16 bf16; do
    python3 bench/kernelbench/run.py "$library" "$work/$type" "$out/$type.json" --samples 7 --variant $type || status=1
  done
  return $status
}

sizes() {
  local status=0
  for case in part ragged; do
    python3 bench/kernelbench/run.py "$library" "$work/problems" "$out/$case.json" --samples 15 --case $case --only "$(ids bound)" || status=1
  done
  return $status
}

dram() { python3 bench/kernelbench/dram.py "$library" "$work/problems" "$out/predictions.json" "$out/dram.json"; }

gemm() { python3 bench/gemm.py "$sketchc" "$library" "$out/gemm.json" --only f16_nn,f16_nt,bf16_nt,i8_nt,f8e4m3_nt --rounds 12 --folder "$work/gemm" --arch "$ARCH"; }

attention() { python3 bench/attention.py "$sketchc" "$library" "$out/attention.json" --folder "$work/attention" --arch "$ARCH"; }

search() { python3 bench/search_gpu.py "$sketchc" "$out/search" --total=300; }

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(compile atoms check older problems precision drawn variants sizes dram gemm attention search)
failed=
echo "commit ${commit:-unknown}, seed $seed" | tee "$out/measured.txt"
for part in "${parts[@]}"; do
  case $part in
  compile | atoms | check | older | problems | precision | drawn | variants | sizes | dram | gemm | attention | search) ;;
  *)
    echo "there is no part $part"
    exit 2
    ;;
  esac
  begin=$SECONDS
  if $part > "$out/$part.log" 2>&1; then said="done"; else said="failed" failed="$failed $part"; fi
  echo "$part: $said in $((SECONDS - begin)) s" | tee -a "$out/measured.txt"
done
[ -z "$failed" ] || {
  echo "failed:$failed"
  exit 1
}
echo "all done"
