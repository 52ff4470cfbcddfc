#!/usr/bin/env bash
# What the restore stage changed: language distance, F1 of words by training frequency, validation curves.
#   bash examples/csr/analyse.sh DATA OUT PIECES ANALYSIS BASELINE RUN...
# OUT/mbart.pt is the mBART, PIECES its sentencepiece model and dictionary; BASELINE and RUN are names of runs of OUT after generate.sh; a
# restore stage is in OUT/RUN/restore. Ratios and differences are to BASELINE. Tables and plots go to ANALYSIS.
set -euo pipefail
[ $# -ge 6 ] || { sed -n 2,5p "$0" >&2; exit 2; }
data=$1 out=$2 pieces=$3 analysis=$4
shift 4
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$analysis"
split=${SPLIT:-test_2016_flickr}
checkpoints=() outputs=() logs=() earlier=()
for name in "$@"; do
    checkpoints+=("$name=$out/$name/checkpoint_best.pt")
    outputs+=("$name=$out/$name/beam.$target")
    logs+=("$name=$out/$name/train.log")
    [ ! -e "$out/$name/restore/train.log" ] || earlier+=("$name=$out/$name/restore/train.log")
done
[ ${#earlier[@]} -eq 0 ] || earlier=(--earlier "${earlier[@]}")

# table NAME MODULE ARGUMENTS...: goes to ANALYSIS/NAME.md when it is whole.
table() {
    local name=$1 module=$2
    shift 2
    "$PYTHON" -m "fairseq_plugins.analysis.$module" "$@" --json "$analysis/$name.json" --plot "$analysis/$name.svg" \
        >"$analysis/$name.new" && mv "$analysis/$name.new" "$analysis/$name.md"
}

table distance language_distance mbart="$out/mbart.pt" "${checkpoints[@]}" --source "$data/$split.$source" \
    --target "$data/$split.$target" --source-lang "$source" --target-lang "$target" \
    --sentencepiece "$pieces/sentencepiece.bpe.model" --dict "$pieces/dict.txt"
table frequency frequency_f1 --train "$data/train.$target" --reference "$data/$split.$target" --output "${outputs[@]}"
table curves training_curves "${logs[@]}" ${earlier[@]+"${earlier[@]}"} --metric valid.nll_loss
cat "$analysis"/{distance,frequency,curves}.md
