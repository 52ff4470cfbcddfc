#!/usr/bin/env bash
# Score the outputs of one or more runs, paired bootstrap against the first.
#   bash examples/deltalm/score.sh TASK OUT NAME...     after generate.sh
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,3p "$0" >&2; exit 2; }
task=$1 out=$2
shift 2
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
systems=()
for name in "$@"; do systems+=(--system "$name=$out/$name/beam.$target"); done
references=("$out/text/$test_split.$target".ref*)
[ -e "${references[0]}" ] || references=("$out/text/$test_split.$target")
"$PYTHON" -m data_prep.score --reference "${references[@]}" --metrics $metrics "${systems[@]}"
