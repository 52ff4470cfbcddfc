#!/usr/bin/env bash
# Translate each language with its own model of train_each.sh, print and keep a table of each test set.
#   bash examples/sga/evaluate_each.sh OUT NAME PASSES [fairseq-generate options]
# TRAINED="de es fr ru", TARGET, SUBSETS="test ntrex" as in evaluate_many.sh. Tables go to OUT/NAME/SUBSET-PASSES.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,4p "$0" >&2; exit 2; }
out=$1 name=$2 passes=$3
shift 3
languages=(${TRAINED:-de es fr ru}) target=${TARGET:-en}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PYTHON=${PYTHON:-python}
. examples/sga/settings_many.sh
for language in "${languages[@]}"; do
    mkdir -p "$out/$name/$language"
    TRAINED=$language ZERO=" " bash examples/sga/evaluate_many.sh "$out" "$name/$language" "$passes" "$@" >"$out/$name/$language/evaluate.log"
done
for subset in ${SUBSETS:-test ntrex}; do
    kept=$out/$name/$subset-$passes systems=()
    mkdir -p "$kept"
    for language in "${languages[@]}"; do systems+=(--system "$language=$out/$name/$language/$subset-$passes/$language.txt"); done
    references_of "$subset" "${languages[@]}"
    echo "$subset, $passes passes, a model a language:"
    "$PYTHON" -m data_prep.score_languages "${systems[@]}" "${references[@]}" \
        --trained "$(IFS=,; echo "${languages[*]}")" --json "$kept/scores.json" | tee "$kept/table.md"
done
