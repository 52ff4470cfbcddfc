#!/usr/bin/env bash
# The autoregressive baseline: a stock transformer from scratch, for a given wall time, on the same pieces; PAIR and BIN as in train_sga.sh.
#   bash examples/sga/train_at.sh OUT NAME HOURS SEED [fairseq-train options]
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,3p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4 pair=${PAIR:-en-de}
source=${pair%-*} target=${pair#*-}
shift 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$out/$name"
fairseq-train "${BIN:-$out/bin}" --user-dir fairseq_plugins --task translation --source-lang "$source" --target-lang "$target" \
    --arch transformer --encoder-layers 3 --decoder-layers 3 --encoder-embed-dim 128 --decoder-embed-dim 128 \
    --encoder-ffn-embed-dim 512 --decoder-ffn-embed-dim 512 --encoder-attention-heads 4 --decoder-attention-heads 4 \
    --share-all-embeddings --dropout 0.2 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --lr 0.004 --lr-scheduler inverse_sqrt --warmup-updates 1000 \
    --max-tokens 2048 --seed "$seed" --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 --skip-invalid-size-inputs-valid-test \
    --eval-bleu --eval-bleu-args '{"beam": 1, "max_len_a": 1.2, "max_len_b": 10}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 500 --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
