#!/usr/bin/env bash
# The frozen model of train_msp.sh: a stock transformer_lm of GPT-2's wiring over en, de and fr; each caption is followed by its
# translations, in either order, as TLM lets the masked LM see pairs.
#   bash examples/sga/pretrain_lm.sh OUT UPDATES [fairseq-train options]     OUT was made by prepare.sh; run again to continue
# The learning rate falls linearly to 0 at UPDATES.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 updates=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
text=$out/lm_text
mkdir -p "$text" "$out/lm"
for split in train valid; do
    pieces=$out/bin/pieces/$split
    { paste -d '\n' "$pieces.en" "$pieces.de" "$pieces.fr" && paste -d '\n' "$pieces.fr" "$pieces.de" "$pieces.en"; } >"$text/$split"
done
[ -f "$text/bin/valid.idx" ] || fairseq-preprocess --only-source --srcdict "$out/dict.txt" --trainpref "$text/train" \
    --validpref "$text/valid" --destdir "$text/bin"
fairseq-train "$text/bin" --user-dir fairseq_plugins --task language_modeling --sample-break-mode complete --tokens-per-sample 256 \
    --arch transformer_lm --decoder-layers 4 --decoder-embed-dim 256 --decoder-input-dim 256 --decoder-output-dim 256 \
    --decoder-ffn-embed-dim 1024 --decoder-attention-heads 4 --decoder-normalize-before --decoder-learned-pos --no-scale-embedding \
    --activation-fn gelu_accurate --share-decoder-input-output-embed --dropout 0.0 --criterion cross_entropy \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.0008 --warmup-updates 1000 \
    --lr-scheduler polynomial_decay --total-num-update "$updates" --max-update "$updates" \
    --max-tokens 2048 --seed 1 --num-workers 0 --validate-interval-updates 1000 --save-interval-updates 500 \
    --keep-interval-updates 1 --no-epoch-checkpoints --log-format simple --log-interval 50 --save-dir "$out/lm" "$@"
cp "$out/dict.txt" "$out/lm/"
