#!/usr/bin/env bash
# The frozen model of the runs on Multi30k: a masked LM of XLM-R's shape, MLM + TLM over en, de and fr.
#   bash examples/sga/pretrain.sh OUT UPDATES [fairseq-train options]     OUT was made by prepare.sh; run again to continue
# The learning rate falls linearly to 0 at UPDATES.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
out=$1 updates=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
fairseq-train "$out/bin" --user-dir fairseq_plugins --task tlm_pretraining --pairs en-de,en-fr,de-fr --monolingual en,de,fr \
    --arch xlmr_mlm_tiny --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --max-positions 512 --tokens-per-sample 256 \
    --mask-prob 0.15 --one-side-prob 0.7 --dropout 0.0 --attention-dropout 0.0 --criterion masked_lm \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.0008 --warmup-updates 1000 \
    --lr-scheduler polynomial_decay --total-num-update "$updates" --max-update "$updates" \
    --max-tokens 2048 --seed 1 --num-workers 0 --skip-invalid-size-inputs-valid-test --validate-interval-updates 1000 \
    --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints --log-format simple --log-interval 50 \
    --save-dir "$out/masked_lm" "$@"
cp "$out/dict.txt" "$out/sentencepiece.bpe.model" "$out/masked_lm/"
