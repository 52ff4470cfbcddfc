#!/usr/bin/env bash
# Make the frozen model of the quickstart again: a masked LM of XLM-R's shape, MLM + TLM on the toy languages.
#   bash examples/quickstart/train_masked_lm.sh OUT [fairseq-train options]    run again to continue; hours on one CPU core
# Only sentences of the generator's training split are used: no test sentence of any TOY_SEED is among them.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,4p "$0" >&2; exit 2; }
out=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHON=${PYTHON:-python} PYTHONWARNINGS=ignore
pairs=en-de,en-tr,de-tr
shipped=examples/quickstart/masked_lm
mkdir -p "$out"
if [ ! -e "$out/bin/manifest.json" ]; then
    "$PYTHON" -m data_prep.toy --out "$out/text" --seed 100 --train 200000 --valid 500 --test 500
    # The pieces are those shipped: sentencepiece 0.2.3, BPE, 1,300 pieces, coverage 1, trained on train.en, train.de and
    # train.tr with --input_sentence_size 50000. `python -m data_prep.spm train` makes new ones.
    cp "$shipped/sentencepiece.bpe.model" "$shipped/dict.txt" "$out/"
    bash data_prep/preprocess.sh --text "$out/text" --model "$out/sentencepiece.bpe.model" --dict "$out/dict.txt" \
        --pairs $pairs --splits train,valid --out "$out/bin" --workers 2
fi
fairseq-train "$out/bin" --user-dir fairseq_plugins --task tlm_pretraining --pairs $pairs --monolingual en,de,tr \
    --mask-prob 0.15 --one-side-prob 0.7 --tokens-per-sample 256 --arch xlmr_mlm_tiny --max-positions 128 \
    --dropout 0.0 --attention-dropout 0.0 --criterion masked_lm --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
    --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 1000 --max-tokens 2048 --seed 1 --cpu --num-workers 0 \
    --skip-invalid-size-inputs-valid-test --validate-interval-updates 1000 --save-interval-updates 1000 \
    --keep-interval-updates 1 --no-epoch-checkpoints --log-format simple --log-interval 100 --save-dir "$out/checkpoints" \
    --max-update 7000 "$@"
"$PYTHON" examples/export_masked_lm.py --checkpoint "$out/checkpoints/checkpoint_last.pt" --dict "$out/dict.txt" \
    --sentencepiece "$out/sentencepiece.bpe.model" --output "$out/masked_lm"
