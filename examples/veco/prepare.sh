#!/usr/bin/env bash
# Data-bins of the whole chain, in the pieces of a masked LM: translation pairs, documents, XNLI.
#   bash examples/veco/prepare.sh DATA OUT
# DATA holds multi30k (pairs), bible (documents: its chapters) and xnli. OUT/bin has pairs and documents in one folder.
set -euo pipefail
[ $# -eq 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
data=$1 out=$2
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$out/text" "$out/documents" "$out/pieces"
# <mask> has the masked LM's last row; the symbols of the languages, which generation begins and ends with, come after it.
{ cat "$MLM/dict.txt"; printf '%s 1\n' '<mask>' '[en]' '[de]' '[fr]'; } >"$out/dict.txt"
model=$MLM/sentencepiece.bpe.model

cp "$data"/multi30k/{train,valid,$test_split}.{en,de,fr} "$out/text/"
bash data_prep/preprocess.sh --text "$out/text" --model "$model" --dict "$out/dict.txt" --pairs en-de,en-fr,de-fr \
    --splits "train,valid,$test_split" --out "$out/bin" --workers 2

# A document is a chapter, with an empty line behind it; the last book is for validation.
files=()
for lang in en de fr; do
    paste "$data/bible/bible.ids" "$data/bible/bible.$lang" | awk -F '\t' -v out="$out/documents" -v lang="$lang" '
        {
            split($1, id, ".")
            file = out (id[1] == "Rev" ? "/valid." : "/train.") lang
            if (file == last && id[1] "." id[2] != chapter) print "" >file
            print $2 >file
            last = file
            chapter = id[1] "." id[2]
        }'
    files+=("train.$lang" "valid.$lang")
done
"$PYTHON" -m data_prep.spm apply --model "$model" --dict "$out/dict.txt" --inputs "${files[@]/#/$out/documents/}" \
    --outputs "${files[@]/#/$out/pieces/}"
for lang in en de fr; do
    fairseq-preprocess --only-source --source-lang "$lang" --srcdict "$out/dict.txt" --trainpref "$out/pieces/train" \
        --validpref "$out/pieces/valid" --destdir "$out/bin" 2>"$out/preprocess.$lang.err" || { cat "$out/preprocess.$lang.err" >&2; exit 1; }
done

xnli=$data/xnli
bash data_prep/nlu.sh sentences "$out/xnli" --sentencepiece "$model" --dict "$out/dict.txt" --limit "${LIMIT:-valid=2000,test=2500}" \
    train.en="$xnli/mnli_train.en.tsv" valid.en="$xnli/dev.en.tsv" test.en="$xnli/test.en.tsv" test.de="$xnli/test.de.tsv" \
    test.fr="$xnli/test.fr.tsv"
