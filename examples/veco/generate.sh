#!/usr/bin/env bash
# Average the 5 best checkpoints of a run (BEST=N: the N best) and decode the test set with beam 5.
#   bash examples/veco/generate.sh OUT NAME [fairseq-generate options]    writes OUT/NAME/beam.TARGET (KEEP=FOLDER: there)
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,3p "$0" >&2; exit 2; }
out=$1 name=$2
shift 2
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
keep=${KEEP:-$out/$name}
mkdir -p "$keep"
"$PYTHON" -m fairseq_plugins.checkpoints.average --directory "$out/$name" --best "${BEST:-5}" --allow-fewer --output "$out/$name/average.pt"
fairseq-generate "$out/bin" --user-dir fairseq_plugins --task translation_from_pretrained_veco --source-lang "$source" \
    --target-lang "$target" --gen-subset $test_split --path "$out/$name/average.pt" --beam 5 --remove-bpe sentencepiece \
    --batch-size 64 "$@" >"$out/$name/generate.log" 2>"$out/$name/generate.err" || { tail -n 20 "$out/$name/generate.err" >&2; exit 1; }
"$PYTHON" -m data_prep.hypotheses --input "$out/$name/generate.log" --output "$keep/beam.$target"
