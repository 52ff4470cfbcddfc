#!/usr/bin/env bash
# VECO pre-training from a masked LM: chapters of three languages and three pairs, a batch of each in turn.
#   bash examples/veco/pretrain.sh OUT NAME UPDATES [fairseq-train options]    OUT was made by prepare.sh
# Goes to OUT/NAME; run again to continue. --objectives is (masked LM), is,tlm or is,cs leaves out a part; INIT=none starts at random.
# --freeze-backbone-updates N: cross-attention alone first; N below the warm-up, a sixth of UPDATES.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 name=$2 updates=$3
shift 3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$out/$name"
init=(--init-from-mlm "$MLM" --embedding-mismatch extend)
[ "${INIT:-}" != none ] || init=()
fairseq-train "$out/bin" --user-dir fairseq_plugins --task veco_pretraining --pairs en-de,en-fr,de-fr --monolingual en,de,fr \
    --tokens-per-sample 256 --mask-prob 0.15 --sampling-alpha 0.5 --arch "$arch" ${init[@]+"${init[@]}"} --share-all-embeddings \
    --max-source-positions 512 --max-target-positions 512 --dropout 0.1 --criterion cross_sequence_mlm \
    --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.01 --clip-norm 1.0 --lr 0.001 --lr-scheduler polynomial_decay \
    --warmup-updates $((updates / 6)) --total-num-update "$updates" --max-update "$updates" --max-tokens 4096 \
    --seed "${SEED:-1}" --num-workers 0 --validate-interval-updates 500 --save-interval-updates 250 --keep-interval-updates 1 \
    --no-epoch-checkpoints --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
