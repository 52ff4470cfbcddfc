#!/usr/bin/env bash
# One SGA for each language, with the commands of train_many.sh: what shared prompts are compared with; run again to continue after a stop.
#   bash examples/sga/train_each.sh OUT NAME HOURS SEED [fairseq-train options]
# OUT, TRAINED="de es fr ru", TARGET and MLM as there. HOURS is the wall time of all of them together, an equal share each; a model goes
# to OUT/NAME/LANGUAGE. Decode and score with evaluate_each.sh. SYSTEM=msp (at, from_xlmr) trains each with train_msp.sh instead: decode with
# evaluate.sh OUT NAME/LANGUAGE beam.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,6p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4
shift 4
languages=(${TRAINED:-de es fr ru}) system=${SYSTEM:-many}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
case $system in
    many | msp | at | from_xlmr) ;;
    *) echo "SYSTEM is '$system'; valid: many (SGA), msp, at, from_xlmr" >&2; exit 2 ;;
esac
share=$(awk -v hours="$hours" -v count="${#languages[@]}" 'BEGIN { printf "%.6f", hours / count }')
for language in "${languages[@]}"; do
    done=$out/$name/$language/done
    [ ! -e "$done" ] || continue
    TRAINED=$language PAIR=$language-${TARGET:-en} bash "examples/sga/train_$system.sh" "$out" "$name/$language" "$share" "$seed" "$@"
    touch "$done"
done
