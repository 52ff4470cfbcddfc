#!/usr/bin/env bash
# Score the outputs of one or more runs, paired bootstrap against the first.
#   bash examples/csr/score.sh DATA OUT NAME...     after generate.sh; DATA holds the reference (REFERENCE=FILE names another)
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,3p "$0" >&2; exit 2; }
data=$1 out=$2
shift 2
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
systems=()
for name in "$@"; do systems+=(--system "$name=$out/$name/beam.$target"); done
"$PYTHON" -m data_prep.score --reference "${REFERENCE:-$data/test_2016_flickr.$target}" --metrics "${METRICS:-bleu,chrf}" "${systems[@]}"
