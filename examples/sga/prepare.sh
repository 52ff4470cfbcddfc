#!/usr/bin/env bash
# Text to data-bin for the runs on Multi30k: joint sentencepiece model over en, de and fr, three pairs.
#   bash examples/sga/prepare.sh DATA OUT     DATA holds train.*, valid.* and test_2016_flickr.* in en, de, fr
# VALID_LINES=N takes the first N lines of valid.*: SGA decodes them at each validation.
set -euo pipefail
[ $# -eq 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
data=$1 out=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" PYTHON=${PYTHON:-python}
mkdir -p "$out"
if [ -n "${VALID_LINES:-}" ]; then
    mkdir -p "$out/text"
    for language in en de fr; do
        cp "$data/train.$language" "$data/test_2016_flickr.$language" "$out/text/"
        head -n "$VALID_LINES" "$data/valid.$language" >"$out/text/valid.$language"
    done
    data=$out/text
fi

"$PYTHON" -m data_prep.spm train --inputs "$data/train.en" "$data/train.de" "$data/train.fr" --vocab-size 6000 \
    --character-coverage 1.0 --model "$out/sentencepiece.bpe.model" --dict "$out/dict.txt"
bash "$root/data_prep/preprocess.sh" --text "$data" --model "$out/sentencepiece.bpe.model" --dict "$out/dict.txt" \
    --pairs en-de,en-fr,de-fr --splits train,valid,test_2016_flickr --out "$out/bin" --workers 2
