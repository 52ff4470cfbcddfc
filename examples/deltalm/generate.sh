#!/usr/bin/env bash
# Average the 5 best checkpoints of a run and decode the test set with beam 5.
#   bash examples/deltalm/generate.sh TASK OUT NAME [fairseq-generate options]    writes OUT/NAME/beam.TARGET (KEEP=FOLDER: there)
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,3p "$0" >&2; exit 2; }
task=$1 out=$2 name=$3
shift 3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
keep=${KEEP:-$out/$name}
mkdir -p "$keep"
"$PYTHON" -m fairseq_plugins.checkpoints.average --directory "$out/$name" --best 5 --allow-fewer --output "$out/$name/average.pt"
fairseq-generate "$out/bin" --user-dir fairseq_plugins --task translation --source-lang $source --target-lang $target \
    --gen-subset $test_split --path "$out/$name/average.pt" "${generation[@]}" --remove-bpe sentencepiece --batch-size 64 \
    --truncate-source --skip-invalid-size-inputs-valid-test "$@" >"$out/$name/generate.log" 2>"$out/$name/generate.err"
"$PYTHON" -m data_prep.hypotheses --input "$out/$name/generate.log" --output "$keep/beam.$target"
