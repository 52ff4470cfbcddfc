#!/usr/bin/env bash
# Fine-tune DeltaLM for a given wall time; run again to continue after a stop.
#   bash examples/deltalm/train.sh TASK OUT NAME HOURS SEED [fairseq-train options]    OUT was made by prepare.sh TASK
# INIT=PATH starts from a DeltaLM checkpoint (released, or of pretrain.sh), INIT=none from random values; otherwise from the masked LM MLM.
set -euo pipefail
[ $# -ge 5 ] || { sed -n 2,4p "$0" >&2; exit 2; }
task=$1 out=$2 name=$3 hours=$4 seed=$5
shift 5
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$out/$name"
case ${INIT:-} in
    '') init=(--init-from-mlm "$MLM") ;;
    none) init=() ;;
    *) init=(--pretrained-deltalm-checkpoint "$INIT" --embedding-mismatch truncate) ;;  # the sentinels are left out
esac
arch=deltalm_tiny
[ "$task" != toy ] || arch="deltalm_tiny --encoder-embed-dim 192 --decoder-embed-dim 192 --encoder-ffn-embed-dim 768 --decoder-ffn-embed-dim 768"
# shellcheck disable=SC2086  # $arch is several words
fairseq-train "$out/bin" --user-dir fairseq_plugins --task translation --source-lang $source --target-lang $target \
    --arch $arch "${init[@]}" --share-all-embeddings --max-source-positions $max_source --max-target-positions $max_target \
    --truncate-source --dropout 0.2 --criterion label_smoothed_linear_cross_entropy --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.001 --lr-scheduler inverse_sqrt --warmup-updates 250 \
    --max-tokens 2048 --seed "$seed" --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 \
    --skip-invalid-size-inputs-valid-test \
    --eval-bleu --eval-bleu-args '{"beam": 1, "max_len_a": 1.2, "max_len_b": 10}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 250 --save-interval-updates 250 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
