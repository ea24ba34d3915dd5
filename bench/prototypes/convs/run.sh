#!/usr/bin/env bash
# See README.md. Environment: SK (sketchc), LIB (libsketchc.so), REPO; SKETCHC_SCATTERED: a sketchc with scattered.patch.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export REPO
work=$(mktemp -d)
cd "$work" || exit 1
python3 "$here/variants.py" "$REPO" "$work" || exit 1
compile() { # compiler, sketch, artifact
  "$1" "$2" -t nvptx --arch=sm_90a --emit=artifact -q -o "$3"
}
for f in */*.sketch; do compile "$SK" "$f" "${f%.sketch}.ptx.ska" & done; wait
if [ -n "${SKETCHC_SCATTERED:-}" ]; then
  mkdir scattered
  for f in now/*.sketch; do compile "$SKETCHC_SCATTERED" "$f" "scattered/$(basename "${f%.sketch}").ptx.ska" & done; wait
fi
profile() { # name, counters, what
  local name=$1 counters=$2
  shift 2
  timeout 80 ncu --metrics "$counters" --profile-from-start off --cache-control none --clock-control none --export "$name.rep" -f python3 "$here/launches.py" "$LIB" "$@" > "$name.log" 2>&1
  ncu --import "$name.rep.ncu-rep" --csv --page raw --print-units base > "$name.csv" 2> /dev/null
  python3 "$here/launches.py" --show "$name.csv" "$name.log" || tail -5 "$name.log"
}
p=.avg.pct_of_peak_sustained_elapsed
echo "== launches"
profile time gpu__time_duration.sum now:{54,59,63,76,87,50,62,80,86,60,67}:ptx kept:{54,59,63,76}:ptx
echo "== what binds"
profile binds gpu__time_duration.sum,dram__throughput$p,lts__t_sectors$p,lts__t_sectors_op_read.sum,lts__t_sectors_op_write.sum,l1tex__throughput$p,smsp__issue_active$p,smsp__inst_executed.sum \
  now:54:ptx:4 now:63:ptx:2 kept:63:ptx:2 now:87:ptx:2 now:59:ptx:4
echo "== times"
s=${SKETCHC_SCATTERED:+,scattered:ptx}
timeout 150 python3 "$here/times.py" "$LIB" 54=now:ptx,kept:ptx,rows:ptx,joined:ptx,wide54:ptx$s 59=now:ptx,kept:ptx,rows:ptx$s 63=now:ptx,kept:ptx,rows:ptx,joined:ptx$s \
  76=now:ptx,kept:ptx$s 87=now:ptx,pointwise64:ptx,pointwise_alone:ptx 67=now:ptx,kept:ptx$s 62=now:ptx,rows:ptx$s 80=now:ptx,rows:ptx$s 50=now:ptx$s 60=now:ptx$s 66=now:ptx$s 86=now:ptx$s
rm -rf "$work"
