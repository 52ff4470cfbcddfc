#!/usr/bin/env bash
# Tatoeba: find each sentence's English translation by the averaged vectors of a layer; nothing is trained.
#   bash examples/veco/retrieve.sh DATA OUT MODEL LAYER [options of the retrieval command]    OUT was made by prepare.sh
# DATA holds tatoeba; MODEL is any encoder that nlu_encoder reads; LAYER 0 is the embedding's output; all: every layer, and the one that is best
# on the validation pairs of OUT. The authors' script takes what is 19 of 24 here, with --score cosine.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,5p "$0" >&2; exit 2; }
data=$1 out=$2 model=$3 layer=$4
shift 4
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
pairs=()
for lang in deu fra; do
    pairs+=(--pair "$lang-eng" "$data/tatoeba/tatoeba.$lang-eng.$lang" "$data/tatoeba/tatoeba.$lang-eng.eng")
done
if [ "$layer" = all ]; then
    for lang in de fr; do pairs+=(--dev-pair "$lang-en" "$out/text/valid.$lang" "$out/text/valid.en"); done
fi
"$PYTHON" -m fairseq_plugins.analysis.retrieval tatoeba "$model" "${pairs[@]}" --layer "$layer" \
    --sentencepiece "$MLM/sentencepiece.bpe.model" --dict "$out/dict.txt" "$@"
