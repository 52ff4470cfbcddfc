#!/usr/bin/env bash
# "AT initialization": the frozen model of the SGA runs as the encoder of a stock transformer, all of it fine-tuned; PAIR as in train_sga.sh.
#   bash examples/sga/train_from_xlmr.sh OUT NAME HOURS SEED [fairseq-train options, as --freeze-encoder]
# Decode with evaluate.sh OUT NAME beam. MLM=PATH takes another masked LM (with its sizes, or --arch transformer_from_xlmr_base).
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,4p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4 pair=${PAIR:-en-de}
source=${pair%-*} target=${pair#*-}
shift 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$out/$name"
fairseq-train "$out/bin" --user-dir fairseq_plugins --task translation --source-lang "$source" --target-lang "$target" \
    --arch transformer_from_xlmr_tiny --pretrained-xlmr "${MLM:-examples/sga/masked_lm}" --share-all-embeddings \
    --dropout 0.2 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.0007 --lr-scheduler inverse_sqrt --warmup-updates 1000 \
    --max-tokens 2048 --seed "$seed" --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 --skip-invalid-size-inputs-valid-test \
    --eval-bleu --eval-bleu-args '{"beam": 1, "max_len_a": 1.2, "max_len_b": 10}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 500 --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
