#!/usr/bin/env bash
# The non-autoregressive baseline: nat_ctc from scratch, for a given wall time, on the same pieces; PAIR and BIN as in train_sga.sh.
#   bash examples/sga/train_nat.sh OUT NAME HOURS SEED [fairseq-train options]
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,3p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4 pair=${PAIR:-en-de}
source=${pair%-*} target=${pair#*-}
shift 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$out/$name"
fairseq-train "${BIN:-$out/bin}" --user-dir fairseq_plugins --task sga_translation --source-lang "$source" --target-lang "$target" \
    --criterion sga_ctc --arch nat_ctc_tiny --dropout 0.2 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 1000 \
    --max-tokens 2048 --seed "$seed" --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 --skip-invalid-size-inputs-valid-test \
    --eval-bleu --eval-bleu-args '{"iter_decode_max_iter": 0}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 500 --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
