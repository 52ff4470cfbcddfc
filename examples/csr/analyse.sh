#!/usr/bin/env bash
# What the restore stage changed: language distance, F1 of words by training frequency, validation curves.
#   bash examples/csr/analyse.sh DATA OUT PIECES BASELINE RESTORED ANALYSIS
# OUT/mbart.pt is the mBART, PIECES its sentencepiece model and dictionary; BASELINE and RESTORED are names of runs of OUT after generate.sh,
# the restore stage of RESTORED is OUT/RESTORED/restore; tables and plots go to ANALYSIS.
set -euo pipefail
[ $# -eq 6 ] || { sed -n 2,5p "$0" >&2; exit 2; }
data=$1 out=$2 pieces=$3 baseline=$4 restored=$5 analysis=$6
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$analysis"
split=${SPLIT:-test_2016_flickr}
pieces_of=(--sentencepiece "$pieces/sentencepiece.bpe.model" --dict "$pieces/dict.txt")
# table NAME MODULE ARGUMENTS...: goes to ANALYSIS/NAME.md when it is whole.
table() {
    local name=$1 module=$2
    shift 2
    "$PYTHON" -m "fairseq_plugins.analysis.$module" "$@" --json "$analysis/$name.json" --plot "$analysis/$name.svg" \
        >"$analysis/$name.new" && mv "$analysis/$name.new" "$analysis/$name.md"
}

table distance language_distance mbart="$out/mbart.pt" "$baseline=$out/$baseline/checkpoint_best.pt" \
    "$restored=$out/$restored/checkpoint_best.pt" --source "$data/$split.$source" --target "$data/$split.$target" \
    --source-lang "$source" --target-lang "$target" "${pieces_of[@]}"
table frequency frequency_f1 --train "$data/train.$target" --reference "$data/$split.$target" \
    --output "$baseline=$out/$baseline/beam.$target" "$restored=$out/$restored/beam.$target"
earlier=()
[ ! -e "$out/$restored/restore/train.log" ] || earlier=(--earlier "$restored=$out/$restored/restore/train.log")
table curves training_curves "$baseline=$out/$baseline/train.log" "$restored=$out/$restored/train.log" \
    ${earlier[@]+"${earlier[@]}"} --metric valid.nll_loss
cat "$analysis"/{distance,frequency,curves}.md
