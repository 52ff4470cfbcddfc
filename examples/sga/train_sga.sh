#!/usr/bin/env bash
# Train SGA for a given wall time, en-de or PAIR=SOURCE-TARGET; run again to continue after a stop.
#   bash examples/sga/train_sga.sh OUT NAME HOURS SEED [fairseq-train options, as --no-denoising]
# OUT was made by prepare.sh; the run goes to OUT/NAME. MLM=PATH takes another frozen model than the shipped one, as OUT/masked_lm of pretrain.sh;
# BIN=PATH another data-bin.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4 pair=${PAIR:-en-de}
source=${pair%-*} target=${pair#*-}
shift 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$out/$name"
fairseq-train "${BIN:-$out/bin}" --user-dir fairseq_plugins --task sga_translation --source-lang "$source" --target-lang "$target" \
    --criterion sga_ctc --arch sga_tiny --prompt-length 64 --pretrained-mlm "${MLM:-examples/sga/masked_lm}" \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.003 --lr-scheduler inverse_sqrt --warmup-updates 200 \
    --batch-size 64 --seed "$seed" --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 --skip-invalid-size-inputs-valid-test \
    --eval-bleu --eval-bleu-args '{"iter_decode_max_iter": 3}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 250 --save-interval-updates 250 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
