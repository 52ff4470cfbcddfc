#!/usr/bin/env bash
# Score the outputs of one or more runs, paired bootstrap against the first.
#   bash examples/veco/score.sh OUT NAME...     after generate.sh
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,3p "$0" >&2; exit 2; }
out=$1
shift
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
systems=()
for name in "$@"; do systems+=(--system "$name=$out/$name/beam.$target"); done
"$PYTHON" -m data_prep.score --reference "$out/text/$test_split.$target" --metrics bleu,chrf "${systems[@]}"
