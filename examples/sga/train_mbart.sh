#!/usr/bin/env bash
# mBART fine-tuning: the small mBART under stock translation_from_pretrained_bart, for a given wall time; PAIR as in train_sga.sh.
#   bash examples/sga/train_mbart.sh OUT NAME HOURS SEED [fairseq-train options]     OUT was made by prepare.sh; run again to continue
# The first run makes OUT/mbart (prepare_mbart.sh OUT: call it yourself before several runs side by side); that time is not in HOURS.
# Languages, sizes and LR, WARMUP, DROPOUT, SMOOTHING, TOKENS are those of examples/csr/settings.sh. Decode with evaluate.sh
# OUT NAME mbart: plain text, so that BLEU compares with systems over other pieces.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,6p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4
shift 4
if [ "$name" = mbart ]; then
    echo "NAME mbart: OUT/mbart is the folder of prepare_mbart.sh; valid: another name" >&2
    exit 2
fi
. "$(dirname "${BASH_SOURCE[0]}")/../csr/settings.sh"
# fairseq would take a language that the mBART lacks for <unk>.
source=$(own_name "$source")
target=$(own_name "$target")
[ -f "$out/mbart/made_with" ] || bash examples/sga/prepare_mbart.sh "$out"
mbart="${MBART:-examples/miniature/mbart/model} $langs"
if [ "$(cat "$out/mbart/made_with")" != "$mbart" ]; then
    echo "MBART and LANGS are '$mbart'; $out/mbart was made with '$(cat "$out/mbart/made_with")'; valid: these, or another OUT" >&2
    exit 2
fi
mkdir -p "$out/$name"
# shellcheck disable=SC2086  # $mbart_args is several words
fairseq-train "$out/mbart/bin" --user-dir fairseq_plugins --task translation_from_pretrained_bart --source-lang "$source" \
    --target-lang "$target" --langs "$langs" $mbart_args --finetune-from-model "$out/mbart/mbart.pt" --dropout "$dropout" \
    --criterion label_smoothed_linear_cross_entropy --label-smoothing "$smoothing" \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr "$lr" --lr-scheduler inverse_sqrt --warmup-updates "$warmup" \
    --max-tokens "$tokens" --seed "$seed" --num-workers 0 --stop-time-hours "$hours" --max-epoch 1000 \
    --skip-invalid-size-inputs-valid-test \
    --eval-bleu --eval-bleu-args '{"beam": 1, "max_len_a": 1.2, "max_len_b": 10}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5 \
    --validate-interval-updates 250 --save-interval-updates 250 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
