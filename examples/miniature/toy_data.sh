#!/usr/bin/env bash
# Toy corpora and data-bins en-de, one a seed, with the pieces of the quickstart's masked LM.
#   bash examples/miniature/toy_data.sh OUT SEED...     makes OUT/text-SEED and OUT/bin-SEED
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,3p "$0" >&2; exit 2; }
out=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mlm=examples/quickstart/masked_lm
export PYTHON=${PYTHON:-python}
for seed in "$@"; do
    "$PYTHON" -m data_prep.toy --out "$out/text-$seed" --seed "$seed" --train 20000 --valid 200 --test 1000 --langs en,de
    bash data_prep/preprocess.sh --text "$out/text-$seed" --model $mlm/sentencepiece.bpe.model --dict $mlm/dict.txt \
        --pairs en-de --out "$out/bin-$seed" --workers 2
done
