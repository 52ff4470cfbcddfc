#!/usr/bin/env bash
# SGA at tiny size, from a generated corpus to a BLEU table, with the stock commands. See docs/quickstart.md.
#
#   TOY_SEED   which sentences are drawn (default 1); the languages and the frozen model stay
#   OUT        where everything is written (default runs/quickstart-TOY_SEED)
#   UPDATES    SGA training updates (default below)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."

TOY_SEED=${TOY_SEED:-1}
OUT=${OUT:-runs/quickstart-$TOY_SEED}
case $OUT in -*) OUT=./$OUT ;; esac
UPDATES=${UPDATES:-240}
MLM=$here/masked_lm
PYTHON=${PYTHON:-python}
export PYTHON PYTHONWARNINGS=ignore
case "$TOY_SEED" in '' | *[!0-9]*) echo "quickstart: TOY_SEED=$TOY_SEED is not valid: a whole number, 0 or more" >&2; exit 2 ;; esac
case "$UPDATES" in *[!0-9]* | 0*) echo "quickstart: UPDATES=$UPDATES is not valid: a whole number, 1 or more" >&2; exit 2 ;; esac
# A run into a folder of another run would continue its checkpoints. Only what a quickstart made is removed, file by file.
MARK=$OUT/.quickstart
if [ -e "$OUT" ] && [ ! -f "$MARK" ] && [ -n "$(ls -A "$OUT")" ]; then
    echo "quickstart: OUT=$OUT holds files that no quickstart made; valid: a new or empty folder, or a quickstart's own" >&2
    exit 2
fi
mkdir -p "$OUT"
. data_prep/lock.sh
lock_output quickstart "$MARK" "OUT=$OUT"
if [ -e "$OUT/checkpoints" ]; then
    echo "quickstart: removing the results of the run in $OUT" >&2
    rm -f "$OUT"/checkpoints/checkpoint*.pt "$OUT"/{average.pt,train.log,train.err,scores.json,table.md} \
        "$OUT"/generate-{0,10}.{log,err} "$OUT"/hypotheses-{0,10}.de
fi
start=$SECONDS
step() { printf '\n[%3d s] %s\n' "$((SECONDS - start))" "$*"; }

step "1/6 toy corpus: English and German, seed $TOY_SEED"
"$PYTHON" -m data_prep.toy --out "$OUT/text" --seed "$TOY_SEED" --train 20000 --valid 200 --test 500 --langs en,de
for language in en de; do head -n 2 "$OUT/text/train.$language"; done

step "2/6 sentencepiece and fairseq-preprocess, with the frozen model's pieces and dictionary"
bash data_prep/preprocess.sh --text "$OUT/text" --model "$MLM/sentencepiece.bpe.model" --dict "$MLM/dict.txt" \
    --pairs en-de --out "$OUT/bin" --workers 2

step "3/6 fairseq-train: $UPDATES updates of SGA (alignment and denoising) around the frozen masked LM"
fairseq-train "$OUT/bin" --user-dir fairseq_plugins --task sga_translation --source-lang en --target-lang de \
    --criterion sga_ctc --arch sga_tiny --pretrained-mlm "$MLM" --lora-rank 8 --ctc-blank-bias 6 --fill-blanks \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.003 --lr-scheduler polynomial_decay --warmup-updates 50 \
    --total-num-update "$UPDATES" --max-update "$UPDATES" --batch-size 64 --seed 1 --cpu --num-workers 0 \
    --eval-bleu --eval-bleu-args '{"iter_decode_max_iter": 2}' --eval-bleu-remove-bpe sentencepiece \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 2 \
    --validate-interval-updates 60 --save-interval-updates 60 --keep-interval-updates 1 --no-epoch-checkpoints \
    --log-format simple --log-interval 50 --save-dir "$OUT/checkpoints" 2>"$OUT/train.err" | tee "$OUT/train.log" |
    grep --line-buffered -oE '(train_inner|valid) \|.*' | sed -uE 's/, wps=.*num_updates=/, num_updates=/; s/, lr=.*//'

step "4/6 average of the best checkpoints"
"$PYTHON" -m fairseq_plugins average --directory "$OUT/checkpoints" --best 2 --allow-fewer --output "$OUT/average.pt"

for passes in 0 10; do
    step "5/6 fairseq-generate with at most $passes denoising passes"
    fairseq-generate "$OUT/bin" --user-dir fairseq_plugins --task sga_translation --source-lang en --target-lang de \
        --path "$OUT/average.pt" --iter-decode-max-iter $passes --print-step --remove-bpe sentencepiece --batch-size 100 --cpu \
        >"$OUT/generate-$passes.log" 2>"$OUT/generate-$passes.err" || { tail -n 20 "$OUT/generate-$passes.err" >&2; exit 1; }
    "$PYTHON" -m data_prep.hypotheses --input "$OUT/generate-$passes.log" --output "$OUT/hypotheses-$passes.de"
done

step "6/6 sacreBLEU on 500 unseen sentences"
"$PYTHON" -m data_prep.score --reference "$OUT/text/test.de" --json "$OUT/scores.json" \
    --system "SGA, alignment only=$OUT/hypotheses-0.de" --system "SGA, with denoising=$OUT/hypotheses-10.de" | tee "$OUT/table.md"
step "done: everything is in $OUT; to try the model in a browser: make serve MODEL=$OUT"
