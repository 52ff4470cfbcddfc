#!/usr/bin/env bash
# Test a fine-tuned encoder in every language of its task.
#   bash examples/mt_transfer/evaluate.sh TASK OUT NAME [options of fairseq-validate]    writes OUT/NAME/test.log (KEEP=FOLDER: there)
# Several of these logs give the table: python -m fairseq_plugins.analysis.transfer_table --log MODEL/TASK=FILE …
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,4p "$0" >&2; exit 2; }
task=$1 out=$2 name=$3
shift 3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
keep=${KEEP:-$out/$name}
mkdir -p "$keep"
fairseq-validate "$out/$task" --user-dir fairseq_plugins "${plugin[@]}" --path "$out/$name/checkpoint_best.pt" --valid-subset "$tests" \
    --max-tokens 4096 --log-format json "$@" >"$out/$name/validate.log" 2>&1 || { tail -n 20 "$out/$name/validate.log" >&2; exit 1; }
# Only the lines with the numbers are kept: the others hold dates and the paths of a machine.
sed -n -E 's/^.* (\| test\.[A-Za-z_]+ \| \{.*\})$/\1/p' "$out/$name/validate.log" >"$keep/test.log"
cat "$keep/test.log"
