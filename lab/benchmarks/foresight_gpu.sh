#!/usr/bin/env bash
# The experiments on many viruses on one GPU, in order, each step resumable (what is finished is not done again):
#   lab/benchmarks/foresight_gpu.sh benign   # how benign life narrows, and by it the chance of arrivals (open_world.json)
#   lab/benchmarks/foresight_gpu.sh bank     # the test part of the bank, in ./runs/bank
#   lab/benchmarks/foresight_gpu.sh wide     # benign life in the wide world, and the test part of its bank, in ./runs/bank-wide
#   lab/benchmarks/foresight_gpu.sh recall   # foresight/recall
#   lab/benchmarks/foresight_gpu.sh purify   # foresight/bank_purification and bank_drift
#   lab/benchmarks/foresight_gpu.sh attackers # foresight/adaptive
#   lab/benchmarks/foresight_gpu.sh bands    # foresight/many: the bands of beta, 5 seeds
#   lab/benchmarks/foresight_gpu.sh rest     # foresight/many: everything else, SEEDS seeds (3)
# SECONDS_LIMIT (570) ends a step early; MINUTES (4.5) after which no further search of a bank begins. Everything is
# kept in ./runs; results, bank and open_world.json are copied to $OUT where that is set.
set -u
cd "$(dirname "$0")/../.."
python="${PYTHON:-python}" lazaretto="${LAZARETTO:-lazaretto}" workers="${WORKERS:-15}" limit="${SECONDS_LIMIT:-570}"
export LAZARETTO_DEVICE="${LAZARETTO_DEVICE:-cuda}" LAZARETTO_CACHE="${LAZARETTO_CACHE:-$PWD/runs/cache}" OMP_NUM_THREADS=1
world=lab/src/lazaretto_lab/studies/outbreak/open_world.json
nvidia-cuda-mps-control -d 2>/dev/null && echo "kernels of several processes run side by side (MPS)"

bench() { # what is finished is kept when the time is up
  timeout --signal=TERM --kill-after=20 "$limit" $lazaretto bench run "$@" --workers "$workers" --json
}

bank() { # FOLDER OPTIONS...: SHARES searches at once
  local folder=$1 shares="${SHARES:-6}"
  shift
  for share in $(seq 0 $((shares - 1))); do
    $python lab/benchmarks/virus_bank.py "$folder" "$@" --device "$LAZARETTO_DEVICE" --part test \
      --share "$share/$shares" --minutes "${MINUTES:-4.5}" &
  done
  wait
  $python lab/benchmarks/virus_bank.py "$folder" --index
}

began=$SECONDS
case "${1:-}" in
  benign) bench outbreak/benign && $python -m lazaretto_lab.studies.outbreak.open_world runs && cat $world ;;
  bank) bank runs/bank ;;
  wide) bench outbreak/benign_wide; bank runs/bank-wide --wide ;;
  recall) bench foresight/recall ;;
  purify) bench foresight/bank_purification; bench foresight/bank_drift ;;
  attackers) bench foresight/adaptive ;;
  bands) bench foresight/many --rows "beta ." ;;
  rest)
    [ -f $world ] || $python -m lazaretto_lab.studies.outbreak.open_world runs # the same choice from the same results
    bench foresight/many --seeds "${SEEDS:-3}" ;;
  *) sed -n '2,13p' "$0"; exit 2 ;;
esac
code=$?
echo "$1: exit $code after $((SECONDS - began)) s"
if [ -n "${OUT:-}" ]; then
  for place in runs/outbreak/* runs/foresight/*; do
    [ -d $place ] && mkdir -p "$OUT/$place" && cp $place/*.json "$OUT/$place/" 2>/dev/null
  done
  for place in runs/bank runs/bank-wide; do
    [ -d $place ] && mkdir -p "$OUT/$place" && cp $place/*.png $place/*.json "$OUT/$place/" 2>/dev/null
  done
  [ -f $world ] && mkdir -p "$OUT/$(dirname $world)" && cp $world "$OUT/$world"
fi
exit $code
