#!/usr/bin/env bash
# Span corruption and translation span corruption from a masked LM, on the sides and pairs of Multi30k.
#   bash examples/deltalm/pretrain.sh OUT NAME UPDATES [fairseq-train options]    OUT was made by prepare.sh translation
# Goes to OUT/NAME; run again to continue. Fine-tuning starts from OUT/NAME/checkpoint_last.pt (INIT=PATH in train.sh).
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,4p "$0" >&2; exit 2; }
task=translation out=$1 name=$2 updates=$3
shift 3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$out/$name"
init=(--init-from-mlm "$MLM" --embedding-mismatch extend)
[ "${INIT:-}" != none ] || init=()
fairseq-train "$out/bin" --user-dir fairseq_plugins --task span_corruption --pairs en-de,en-fr,de-fr --monolingual en,de,fr \
    --add-sentinels 100 --tokens-per-sample 128 --mask-prob 0.15 --pair-mask-prob 0.5 --mean-span 3 \
    --arch deltalm_tiny "${init[@]}" --share-all-embeddings --max-source-positions 512 --max-target-positions 512 \
    --dropout 0.1 --criterion label_smoothed_linear_cross_entropy --label-smoothing 0.0 \
    --optimizer adam --adam-betas '(0.9, 0.999)' --clip-norm 1.0 --lr 0.001 --lr-scheduler polynomial_decay --warmup-updates 200 \
    --total-num-update "$updates" --max-update "$updates" --max-tokens 2048 --seed 1 --num-workers 0 \
    --validate-interval-updates 500 --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
