#!/usr/bin/env bash
# Text to data-bin for one SGA over several languages: the Bible set, NTREX as a second test, joint pieces of all languages.
#   bash examples/sga/prepare_many.sh BIBLE NTREX OUT     BIBLE holds bible.LANG, NTREX ntrex.LANG, one sentence a line
# TRAINED="de es fr ru" and ZERO="vi he eu" are translated into TARGET=en; VOCAB=8000 pieces. Text of the zero-shot languages goes into
# the pieces and the masked LM (pretrain_many.sh), their pairs into tests alone. NTREX_LINES=N takes the first N lines of
# NTREX; VALID_RATIO=0.04 is the share of the verses for validation. MLM=FOLDER: pieces and dictionary of that masked LM (XLM-R's, with dict.txt
# and sentencepiece.bpe.model), then pretrain_many.sh is not needed.
set -euo pipefail
[ $# -eq 3 ] || { sed -n 2,7p "$0" >&2; exit 2; }
bible=$1 ntrex=$2 out=$3
trained=${TRAINED:-de es fr ru} zero=${ZERO:-vi he eu} target=${TARGET:-en}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" PYTHON=${PYTHON:-python}
for file in ${MLM:+"$MLM/sentencepiece.bpe.model" "$MLM/dict.txt"}; do
    [ -f "$file" ] || { echo "MLM is '$MLM': no $file; valid: the folder of a masked LM, or nothing for pieces of this text" >&2; exit 2; }
done
mkdir -p "$out/text"

languages=($target $trained $zero)
"$PYTHON" -m data_prep.split --inputs "${languages[@]/#/$bible/bible.}" --langs "${languages[@]}" --output-dir "$out/text" \
    --valid-ratio "${VALID_RATIO:-0.04}" --test-ratio 0.06
if [ -n "${NTREX_LINES:-}" ]; then
    mkdir -p "$out/ntrex"
    for language in "${languages[@]}"; do head -n "$NTREX_LINES" "$ntrex/ntrex.$language" >"$out/ntrex/ntrex.$language"; done
    ntrex=$out/ntrex
fi
"$PYTHON" -m data_prep.clean --normalise-only --inputs "${languages[@]/#/$ntrex/ntrex.}" --outputs "${languages[@]/#/$out/text/ntrex.}"
if [ -n "${MLM:-}" ]; then
    echo "prepare_many: the pieces are those of $MLM" >&2
    cp "$MLM/sentencepiece.bpe.model" "$MLM/dict.txt" "$out/"
else
    "$PYTHON" -m data_prep.spm train --inputs "${languages[@]/#/$out/text/train.}" --vocab-size "${VOCAB:-8000}" \
        --character-coverage 1.0 --model "$out/sentencepiece.bpe.model" --dict "$out/dict.txt"
fi
pairs=()
for language in $trained $zero; do pairs+=("$language-$target"); done
bash "$root/data_prep/preprocess.sh" --text "$out/text" --model "$out/sentencepiece.bpe.model" --dict "$out/dict.txt" \
    --pairs "$(IFS=,; echo "${pairs[*]}")" --splits train,valid,test,ntrex --out "$out/bin" --workers 2
