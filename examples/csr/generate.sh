#!/usr/bin/env bash
# Decode the test set with the checkpoint of the best validation BLEU, beam 5.
#   bash examples/csr/generate.sh OUT NAME [fairseq-generate options]    writes OUT/NAME/beam.TARGET (KEEP=FOLDER: there)
# Zero-shot: PAIR=fr-en BIN=… decodes French with a model of de-en, to OUT/NAME/fr-en.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
out=$1 name=$2
shift 2
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
folder=$out/$name
[ -z "${BIN:-}" ] || folder=$out/$name/$pair
keep=${KEEP:-$folder}
mkdir -p "$folder" "$keep"
fairseq-generate "${BIN:-$out/bin}" --user-dir fairseq_plugins --task translation_from_pretrained_bart --source-lang "$source" \
    --target-lang "$target" --langs "$langs" --gen-subset "${SUBSET:-test_2016_flickr}" --path "$out/$name/checkpoint_best.pt" \
    --beam "${BEAM:-5}" --max-len-a 1.2 --max-len-b 10 --remove-bpe sentencepiece --batch-size 64 --skip-invalid-size-inputs-valid-test \
    "$@" >"$folder/generate.log" 2>"$folder/generate.err" || { tail -n 20 "$folder/generate.err" >&2; exit 1; }
"$PYTHON" -m data_prep.hypotheses --input "$folder/generate.log" --output "$keep/beam.$target"
