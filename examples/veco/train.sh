#!/usr/bin/env bash
# Fine-tune VECO for translation for a given wall time; run again to continue after a stop.
#   bash examples/veco/train.sh OUT NAME HOURS SEED [fairseq-train options]    OUT was made by prepare.sh
# INIT=PATH starts from a model of pretrain.sh, INIT=none from random values; otherwise from the masked LM MLM. LAYERS says which layers
# the decoder takes: last:2 (default), every:2, or a list such as 2,3.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4
shift 4
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$out/$name"
case ${INIT:-} in
    '') init=(--init-from-mlm "$MLM" --embedding-mismatch extend) ;;
    none) init=() ;;
    *) init=(--finetune-from-model "$INIT") ;;
esac
fairseq-train "$out/bin" --user-dir fairseq_plugins --task translation_from_pretrained_veco --source-lang "$source" \
    --target-lang "$target" --arch "$arch" ${init[@]+"${init[@]}"} --keep-decoder-layers "${LAYERS:-last:2}" --no-scale-embedding \
    --share-all-embeddings --max-source-positions 512 --max-target-positions 512 --dropout 0.2 \
    --criterion label_smoothed_linear_cross_entropy --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.001 --lr-scheduler inverse_sqrt --warmup-updates 250 \
    --max-tokens 2048 --seed "$seed" --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 \
    --eval-bleu --eval-bleu-args '{"beam": 1, "max_len_a": 1.2, "max_len_b": 10}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 250 --save-interval-updates 250 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
