#!/usr/bin/env bash
# Fine-tune the encoder of a VECO (or of any model that nlu_encoder reads) on English XNLI, and test it in en, de and fr.
#   bash examples/veco/understand.sh OUT ENCODER NAME SEED UPDATES [fairseq-train options]    run again to continue
# ENCODER is a checkpoint of pretrain.sh, a released VECO, a masked LM, or none for random values. Writes OUT/NAME/test.log (KEEP=FOLDER: there).
set -euo pipefail
[ $# -ge 5 ] || { sed -n 2,4p "$0" >&2; exit 2; }
out=$1 encoder=$2 name=$3 seed=$4 updates=$5
shift 5
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
keep=${KEEP:-$out/$name}
mkdir -p "$out/$name" "$keep"
start=(--pretrained-encoder "$encoder" --embedding-mismatch extend)
[ "$encoder" != none ] || start=()
plugin=(--user-dir fairseq_plugins --task cross_lingual_classification --criterion sentence_prediction)
fairseq-train "$out/xnli" "${plugin[@]}" --input-format xlmr --max-positions 254 --arch "${arch/veco/veco_encoder}" "${start[@]}" \
    --train-subset train.en --valid-subset valid.en --dropout 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.01 \
    --clip-norm 1.0 --lr 0.0003 --lr-scheduler polynomial_decay --warmup-updates $((updates / 10)) --total-num-update "$updates" \
    --max-update "$updates" --max-tokens 2048 --seed "$seed" --num-workers 0 --best-checkpoint-metric accuracy \
    --maximize-best-checkpoint-metric --validate-interval-updates 100 --save-interval-updates 100 --keep-interval-updates 1 \
    --no-epoch-checkpoints --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
cpu=()
for option in "$@"; do [ "$option" != --cpu ] || cpu=(--cpu); done
fairseq-validate "$out/xnli" "${plugin[@]}" --path "$out/$name/checkpoint_best.pt" --valid-subset test.en,test.de,test.fr \
    --max-tokens 4096 --log-format json ${cpu[@]+"${cpu[@]}"} >"$out/$name/validate.log" 2>&1 || { tail -n 20 "$out/$name/validate.log" >&2; exit 1; }
# Only the lines with the numbers are kept: the others hold dates and the paths of a machine.
sed -n -E 's/^.* (\| test\.[A-Za-z_]+ \| \{.*\})$/\1/p' "$out/$name/validate.log" >"$keep/test.log"
cat "$keep/test.log"
