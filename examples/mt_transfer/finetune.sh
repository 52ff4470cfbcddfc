#!/usr/bin/env bash
# Fine-tune an encoder on the English data of an understanding task; run again to continue.
#   bash examples/mt_transfer/finetune.sh TASK OUT ENCODER NAME SEED [fairseq-train options]
# ENCODER is a checkpoint of an mBART (its decoder is left out), or any encoder that nlu_encoder reads, or none for random values.
# FORMAT=mbart is for the input of multilingual denoising (language last); the default, mbart50, has it first. Goes to OUT/NAME.
set -euo pipefail
[ $# -ge 5 ] || { sed -n 2,5p "$0" >&2; exit 2; }
task=$1 out=$2 encoder=$3 name=$4 seed=$5
shift 5
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$out/$name"
start=(--pretrained-encoder "$encoder")
if [ "$encoder" = none ]; then
    start=(--encoder-family mbart --encoder-layers 3 --encoder-embed-dim 192 --encoder-ffn-embed-dim 768 --encoder-heads 4)
fi
fairseq-train "$out/$task" --user-dir fairseq_plugins "${plugin[@]}" --input-format "${FORMAT:-mbart50}" --langs "$langs" \
    --max-positions "${MAX_POSITIONS:-254}" --arch nlu_encoder "${start[@]}" --train-subset train.en --valid-subset valid.en \
    --dropout 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.01 --clip-norm 1.0 --lr 0.0005 \
    --lr-scheduler polynomial_decay --warmup-updates 40 --total-num-update 400 --max-update 400 --max-tokens 2048 --seed "$seed" \
    --num-workers 0 --best-checkpoint-metric "$metric" --maximize-best-checkpoint-metric --validate-interval-updates 100 \
    --save-interval-updates 100 --keep-interval-updates 1 --no-epoch-checkpoints --log-format json --log-interval 50 \
    --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
