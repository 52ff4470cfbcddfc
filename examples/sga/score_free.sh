#!/usr/bin/env bash
# ROUGE and METEOR of generated texts, paired bootstrap against the first.
#   bash examples/sga/score_free.sh TASK OUT NAME/ITERATIONS-PASSES...     after generate_free.sh, as: sga/4-0 sga/4-10
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,3p "$0" >&2; exit 2; }
task=$1 out=$2
shift 2
. "$(dirname "${BASH_SOURCE[0]}")/settings_free.sh"
systems=()
for name in "$@"; do systems+=(--system "$name=$out/$name.$target"); done
references=("$out/text/test.$target".ref*)
[ -e "${references[0]}" ] || references=("$out/text/test.$target")
"$PYTHON" -m data_prep.score --reference "${references[@]}" --metrics rouge,meteor_exact "${systems[@]}"
