#!/usr/bin/env bash
# One SGA for each language, with the commands of train_many.sh: what shared prompts are compared with; run again to continue after a stop.
#   bash examples/sga/train_each.sh OUT NAME HOURS SEED [fairseq-train options]
# OUT, TRAINED="de es fr ru", TARGET and MLM as there. HOURS is the wall time of all of them together, an equal share each; a model goes
# to OUT/NAME/LANGUAGE. Decode and score with evaluate_each.sh.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4
shift 4
languages=(${TRAINED:-de es fr ru})
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
share=$(awk -v hours="$hours" -v count="${#languages[@]}" 'BEGIN { printf "%.6f", hours / count }')
for language in "${languages[@]}"; do
    done=$out/$name/$language/done
    [ ! -e "$done" ] || continue
    TRAINED=$language bash examples/sga/train_many.sh "$out" "$name/$language" "$share" "$seed" "$@"
    touch "$done"
done
