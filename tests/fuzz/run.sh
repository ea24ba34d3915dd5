#!/usr/bin/env bash
# Runs a libFuzzer program of tests/fuzz.
#   tests/fuzz/run.sh PROGRAM FOLDER RUNS SECONDS [SEEDS...]
# FOLDER takes what is found: crashes, the log, and in corpus/NAME the inputs. FUZZ_JOBS=N runs N processes, each its share
# of the runs with a seed (FUZZ_SEED, and the numbers after it) and a corpus of its own.
set -uo pipefail
program=$1 folder=$2 runs=$3 seconds=$4
shift 4
jobs=${FUZZ_JOBS:-1} seed=${FUZZ_SEED:-$((RANDOM * 1000 + 1))}
name=$(basename "$program")
name=${name#fuzz_}
# What runs a whole server in each execution is held up by bookkeeping: of freed memory, of rare features.
case $name in
  edits) options="-max_len=25 -entropic=0 -use_memmem=0" ;;
  frames) options="-max_len=512 -entropic=0 -use_memmem=0" ;;
  *) options="-max_len=1024" ;;
esac
case $name in
  edits|frames|reply|stream|vectors)
    asan=quarantine_size_mb=8:thread_local_quarantine_size_kb=64:malloc_context_size=4:allocator_release_to_os_interval_ms=-1
    export ASAN_OPTIONS=${ASAN_OPTIONS:-$asan} ;;
esac
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

share() { # the runs of process $1
  echo $((runs / jobs + ($1 < runs % jobs)))
}

pids=() logs=()
for ((i = 0; i < jobs; i++)); do
  kept=$folder/corpus/$name
  [ "$jobs" = 1 ] || kept=$kept-$i
  mkdir -p "$kept"
  logs+=("$folder/$name-$i.log")
  # shellcheck disable=SC2086
  "$program" -runs="$(share "$i")" -max_total_time="$seconds" -seed=$((seed + i)) $options -rss_limit_mb=4096 -timeout=10 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="$folder/" "$kept" "$@" >"${logs[i]}" 2>&1 &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
for log in "${logs[@]}"; do tail -40 "$log"; done
done_runs=$(cat "${logs[@]}" | sed -n 's/^stat::number_of_executed_units: *//p' | awk '{ n += $1 } END { print n + 0 }')
echo "figure: fuzz_$name $done_runs executions, $jobs processes with seeds from $seed, $failed with findings"
[ "$failed" = 0 ]
