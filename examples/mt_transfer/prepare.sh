#!/usr/bin/env bash
# Data-bins of the whole chain, in the pieces of an mBART: translation pairs of the New Testament, and the understanding tasks.
#   bash examples/mt_transfer/prepare.sh DATA PIECES OUT
# DATA holds bible, xnli, wikiann and ud; PIECES holds sentencepiece.bpe.model and dict.txt of the mBART. LIMIT=train=2000,test=500 takes
# the first rows of each split of a task.
set -euo pipefail
[ $# -eq 3 ] || { sed -n 2,5p "$0" >&2; exit 2; }
data=$1 pieces=$2 out=$3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
limit=${LIMIT:-valid=2000,test=2500}
model=(--sentencepiece "$pieces/sentencepiece.bpe.model" --dict "$pieces/dict.txt")

mkdir -p "$out/mt-text"
for lang in ${texts//,/ }; do
    head -n 7200 "$data/bible/bible.$lang" >"$out/mt-text/train.$lang"
    sed -n 7201,7400p "$data/bible/bible.$lang" >"$out/mt-text/valid.$lang"
    tail -n +7401 "$data/bible/bible.$lang" >"$out/mt-text/test.$lang"
done
IFS=, read -r -a names <<<"$texts"
pairs=()
for ((first = 0; first < ${#names[@]}; first++)); do
    for ((second = first + 1; second < ${#names[@]}; second++)); do pairs+=("${names[first]}-${names[second]}"); done
done
bash data_prep/preprocess.sh --text "$out/mt-text" --model "$pieces/sentencepiece.bpe.model" --dict "$pieces/dict.txt" \
    --pairs "$(IFS=,; echo "${pairs[*]}")" --splits train,valid,test --out "$out/mt" --workers 2

xnli=$data/xnli ner=$data/wikiann pos=$data/ud
bash data_prep/nlu.sh sentences "$out/xnli" "${model[@]}" --limit "$limit" train.en="$xnli/mnli_train.en.tsv" \
    valid.en="$xnli/dev.en.tsv" test.en="$xnli/test.en.tsv" test.de="$xnli/test.de.tsv" test.fr="$xnli/test.fr.tsv" \
    test.es="$xnli/test.es.tsv"
bash data_prep/nlu.sh tags "$out/ner" "${model[@]}" --limit "$limit" train.en="$ner/train.en.tsv" valid.en="$ner/dev.en.tsv" \
    test.en="$ner/test.en.tsv" test.de="$ner/test.de.tsv" test.fr="$ner/test.fr.tsv" test.nl="$ner/test.nl.tsv" \
    test.es="$ner/dev.es.tsv" test.it="$ner/dev.it.tsv"
bash data_prep/nlu.sh tags "$out/pos" "${model[@]}" --limit "$limit" train.en="$pos/en_lines.train.conllu" \
    valid.en="$pos/en_lines.dev.conllu" test.en="$pos/en_lines.test.conllu" test.de="$pos/de_gsd.test.conllu" \
    test.fr="$pos/fr_gsd.test.conllu" test.es="$pos/es_gsd.test.conllu"
