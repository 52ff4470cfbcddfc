#!/usr/bin/env bash
# Train SGA for free generation (mask-predict, length predictor, denoiser) for a given wall time; run again to continue.
#   bash examples/sga/train_free.sh TASK OUT NAME HOURS SEED [fairseq-train options, as --no-denoising]
# OUT was made by prepare_free.sh TASK; the run goes to OUT/NAME. ALIGNMENT=ctc trains SGA with CTC instead; MLM=PATH another frozen model.
set -euo pipefail
[ $# -ge 5 ] || { sed -n 2,4p "$0" >&2; exit 2; }
task=$1 out=$2 name=$3 hours=$4 seed=$5
shift 5
. "$(dirname "${BASH_SOURCE[0]}")/settings_free.sh"
mkdir -p "$out/$name"
fairseq-train "$out/bin" --user-dir fairseq_plugins --task sga_translation --source-lang "$source" --target-lang "$target" \
    --criterion $criterion --arch sga_tiny --alignment $alignment --prompt-length 64 --pretrained-mlm "$MLM" \
    $cut --skip-invalid-size-inputs-valid-test \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.003 --lr-scheduler inverse_sqrt --warmup-updates 200 \
    --max-tokens 4096 --seed "$seed" --fixed-validation-seed 1 --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 \
    --eval-bleu --eval-bleu-args '{"iter_decode_max_iter": 3}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 250 --save-interval-updates 250 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
