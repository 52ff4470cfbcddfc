#!/usr/bin/env bash
# Score the outputs of one or more runs, paired bootstrap against the first.
#   bash examples/sga/score.sh DATA OUT NAME/CASE...     after evaluate.sh, as: at/beam sga/10; DATA holds the reference
# PAIR=SOURCE-TARGET as in training; SUBSET=NAME for another test set.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,4p "$0" >&2; exit 2; }
data=$1 out=$2 pair=${PAIR:-en-de}
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
systems=()
for name in "$@"; do systems+=(--system "$name=$out/$name.${pair#*-}"); done
"${PYTHON:-python}" -m data_prep.score --reference "$data/${SUBSET:-test_2016_flickr}.${pair#*-}" --metrics bleu,chrf "${systems[@]}"
