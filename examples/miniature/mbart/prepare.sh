#!/usr/bin/env bash
# Text of the small mBART: captions, New Testament, news, premises and hypotheses, entity sentences, in en, de, fr and es.
#   bash examples/miniature/mbart/prepare.sh DATA OUT     DATA holds multi30k, bible, ntrex, xnli, wikiann and ud
# Goes to OUT: text, sentencepiece model and dictionary of 8,000 pieces, a data-bin folder a language. Test sets are left out.
set -euo pipefail
[ $# -eq 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
data=$1 out=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
PYTHON=${PYTHON:-python}
mkdir -p "$out/text"

words() { awk -F '\t' '$1 == "" { if (line != "") print line; line = ""; next } { line = line == "" ? $1 : line " " $1 } END { if (line != "") print line }' "$1"; }

for lang in en de fr es; do
    {
        if [ -f "$data/multi30k/train.$lang" ]; then cat "$data/multi30k/train.$lang"; fi
        cat "$data/bible/bible.$lang" "$data/ntrex/ntrex.$lang"
        cut -f 1,2 "$data/xnli/dev.$lang.tsv" | tr '\t' '\n'
        if [ "$lang" = en ]; then
            cut -f 1,2 "$data/xnli/mnli_train.en.tsv" | tr '\t' '\n'
            words "$data/wikiann/train.en.tsv"
            sed -n 's/^# text = //p' "$data/ud/en_lines.train.conllu"
        else
            words "$data/wikiann/dev.$lang.tsv"
        fi
    } | awk 'NF && !seen[$0]++' >"$out/text/all.$lang"
    # Every hundredth sentence is for validation.
    awk 'NR % 100 != 0' "$out/text/all.$lang" >"$out/text/train.$lang"
    awk 'NR % 100 == 0' "$out/text/all.$lang" >"$out/text/valid.$lang"
done
"$PYTHON" -m data_prep.spm train --inputs "$out"/text/train.{en,de,fr,es} --vocab-size 8000 --model "$out/sentencepiece.bpe.model" \
    --dict "$out/dict.txt"
files=()
for split in train valid; do for lang in en de fr es; do files+=("$split.$lang"); done; done
mkdir -p "$out/pieces"
"$PYTHON" -m data_prep.spm apply --model "$out/sentencepiece.bpe.model" --dict "$out/dict.txt" --inputs "${files[@]/#/$out/text/}" \
    --outputs "${files[@]/#/$out/pieces/}"
mkdir -p "$out/bin"
cp "$out/dict.txt" "$out/bin/"
for lang in en de fr es; do
    fairseq-preprocess --only-source --srcdict "$out/dict.txt" --trainpref "$out/pieces/train.$lang" --validpref "$out/pieces/valid.$lang" \
        --destdir "$out/bin/$lang" 2>/dev/null
done
