#!/usr/bin/env bash
# Measure one accelerator end to end, in stages: run it again to resume.
#
#   examples/measure-gpu.sh [FOLDER]            everything, about 25 minutes; LIMIT=580 ends each call after that many seconds
#   QUICK=1 examples/measure-gpu.sh [FOLDER]    a short grid and small models: a dry run, on a CPU too
#
# FOLDER (measured-gpu) keeps all.log, the timings (kernels.jsonl), the hardware file (chip.yaml), predicted and measured
# times of full models (loop.jsonl), a trace of a training step and its `roofline profile`. ROOFLINE and CHIP override the command
# and the chip whose shipped constants are compared with the measured ones.
set -uo pipefail

folder=${1:-measured-gpu}
roofline=${ROOFLINE:-roofline}
quick=${QUICK:-}
deadline=$((SECONDS + ${LIMIT:-86400}))
mkdir -p "$folder/done"
export XLA_PYTHON_CLIENT_PREALLOCATE=${XLA_PYTHON_CLIENT_PREALLOCATE:-false} # torch, the second source, needs memory too
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$folder/cache}
status=0

# stage NAME COMMAND...: runs once; its output also goes to all.log. A stage that fails or runs out of time is retried by the next call.
stage() {
  local name=$1 left=$((deadline - SECONDS)) code
  shift
  [ -e "$folder/done/$name" ] && { echo "== $name: done before"; return; }
  [ "$left" -lt 20 ] && { echo "== $name: no time left; run the script again"; status=75; return; }
  echo "== $name: $*" | tee -a "$folder/all.log"
  timeout --signal=INT --kill-after=20 "$left" "$@" 2>&1 | tee -a "$folder/all.log"
  code=${PIPESTATUS[0]}
  if [ "$code" -eq 0 ]; then touch "$folder/done/$name"; else echo "== $name: exit $code" | tee -a "$folder/all.log"; status=$code; fi
}

kernels=(--log "$folder/kernels.jsonl" --out "$folder/chip.yaml")
if [ -n "$quick" ]; then
  stage kernels $roofline measure all --quick --force "${kernels[@]}"
  small="--batch 1 --seq 64 --budget 1"
  models=("gpt2:--layers 2" "llama-3.2-1b:--layers 2 --d-model 512 --vocab 8000" "qwen3-30b-a3b:--layers 1 --d-model 256 --vocab 4000")
else
  # one suite after another, so that an interrupted call leaves complete suites
  stage matmul $roofline measure matmul --budget 400 "${kernels[@]}"
  stage attention $roofline measure attention --budget 300 "${kernels[@]}"
  stage streams $roofline measure bandwidth --budget 60 "${kernels[@]}"
  stage elementwise $roofline measure elementwise --budget 120 "${kernels[@]}"
  small="--batch 8 --seq 1024 --budget 8"
  models=("gpt2:" "llama-3.2-1b:" "llama-3.2-3b:--layers 14" "qwen3-30b-a3b:--layers 4")
fi
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv >>"$folder/all.log" 2>/dev/null

for entry in "${models[@]}"; do
  model=${entry%%:*}
  stage "loop-$model" $roofline measure model "$model" ${entry#*:} $small --hw "$folder/chip.yaml" --log "$folder/loop.jsonl"
  [ -n "${CHIP:-}" ] && stage "shipped-$model" $roofline measure model "$model" ${entry#*:} $small --hw "$CHIP" --log "$folder/loop.jsonl"
done
model=${models[1]%%:*}
options=${models[1]#*:}
stage trace $roofline measure model "$model" $options $small --phase train --hw "$folder/chip.yaml" --log "$folder/loop.jsonl" --trace "$folder/trace"
stage profile $roofline profile "$folder/trace/train"
exit "$status"
