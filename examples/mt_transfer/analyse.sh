#!/usr/bin/env bash
# What continued translation did to an encoder: similarity (CKA) and singular values, before and after.
#   bash examples/mt_transfer/analyse.sh DATA PIECES BEFORE AFTER OUT [options of both cka commands]
# DATA holds ntrex; PIECES as in prepare.sh; BEFORE and AFTER are checkpoints. Writes tables, JSON and plots to OUT.
set -euo pipefail
[ $# -ge 5 ] || { sed -n 2,4p "$0" >&2; exit 2; }
data=$1 pieces=$2 before=$3 after=$4 out=$5
shift 5
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$out"
parallel=()
for lang in ${texts//,/ }; do parallel+=("$lang=$data/ntrex/ntrex.$lang"); done
# The model of denoising had the language last, the continued one has it first.
pieces_a=(--sentencepiece "$pieces/sentencepiece.bpe.model" --dict "$pieces/dict.txt" --input-format mbart)
pieces_b=(--sentencepiece-b "$pieces/sentencepiece.bpe.model" --dict-b "$pieces/dict.txt" --input-format-b mbart50)
"$PYTHON" -m fairseq_plugins.analysis.cka "$before" "$after" --text "${parallel[@]}" "${pieces_a[@]}" "${pieces_b[@]}" \
    --json "$out/models.json" --plot "$out/models.svg" "$@" >"$out/models.md"
for model in before after; do
    format=mbart50
    [ $model = after ] || format=mbart
    "$PYTHON" -m fairseq_plugins.analysis.cka "${!model}" --text "${parallel[@]}" --sentencepiece "$pieces/sentencepiece.bpe.model" \
        --dict "$pieces/dict.txt" --input-format $format --json "$out/languages-$model.json" --plot "$out/languages-$model.svg" \
        "$@" >"$out/languages-$model.md"
done
"$PYTHON" -m fairseq_plugins.analysis.singular_values "$before" "$after" --json "$out/singular_values.json" \
    --plot "$out/singular_values.svg" >"$out/singular_values.md"
cat "$out"/{models,languages-before,languages-after,singular_values}.md
