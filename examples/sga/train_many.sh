#!/usr/bin/env bash
# Train one SGA on several pairs with shared prompts, for a given wall time; run again to continue after a stop.
#   bash examples/sga/train_many.sh OUT NAME HOURS SEED [fairseq-train options, as --sampling-temperature 5]
# OUT was made by prepare_many.sh and pretrain_many.sh; the run goes to OUT/NAME. TRAINED="de es fr ru" and TARGET=en as there: one
# language alone is the model of one pair with the same commands. MLM=PATH takes another frozen model.
# Best checkpoints are those with the best mean of the pairs' BLEU.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,6p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4
shift 4
pairs=()
for language in ${TRAINED:-de es fr ru}; do pairs+=("$language-${TARGET:-en}"); done
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$out/$name"
fairseq-train "$out/bin" --user-dir fairseq_plugins --task sga_translation_multi --lang-pairs "$(IFS=,; echo "${pairs[*]}")" \
    --criterion sga_ctc --arch sga_tiny --prompt-length 64 --pretrained-mlm "${MLM:-$out/masked_lm}" \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.003 --lr-scheduler inverse_sqrt --warmup-updates 200 \
    --max-tokens 2048 --seed "$seed" --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 --skip-invalid-size-inputs-valid-test \
    --eval-bleu --eval-bleu-args '{"iter_decode_max_iter": 3}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 250 --save-interval-updates 250 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
