#!/usr/bin/env bash
# Multi-stage prompts in a frozen causal language model, for a given wall time, on the same pieces; PAIR as in train_sga.sh.
#   bash examples/sga/train_msp.sh OUT NAME HOURS SEED [fairseq-train options]
# Decode with evaluate.sh OUT NAME beam. OUT was made by prepare.sh and pretrain_lm.sh; LM=PATH takes another language model, as a
# Hugging Face folder of mGPT with --arch gpt_msp_mgpt, and text that was cut with its own tokenizer. BIN=OUT/mixed PAIR=x-en trains one
# set of prompts for the languages of prepare_mixed.sh.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,6p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4 pair=${PAIR:-en-de}
source=${pair%-*} target=${pair#*-}
shift 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$out/$name"
fairseq-train "${BIN:-$out/bin}" --user-dir fairseq_plugins --task translation --source-lang "$source" --target-lang "$target" \
    --arch gpt_msp_tiny --prompt-length 64 --pretrained-gpt "${LM:-$out/lm/checkpoint_best.pt}" \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.003 --lr-scheduler inverse_sqrt --warmup-updates 200 \
    --batch-size 64 --seed "$seed" --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 --skip-invalid-size-inputs-valid-test \
    --eval-bleu --eval-bleu-args '{"beam": 1, "max_len_a": 1.2, "max_len_b": 10}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 250 --save-interval-updates 250 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
