#!/usr/bin/env bash
# Tatoeba with the pre-trainings of pretrain_arms.sh and the masked LM that they start from, and a paired test of VECO against each.
#   bash examples/veco/retrieve_arms.sh DATA OUT RESULTS [options of the retrieval command]
# DATA holds tatoeba; OUT was made by prepare.sh and pretrain_arms.sh. Writes RESULTS/NAME.json, NAME.md and comparison.md, .json.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,4p "$0" >&2; exit 2; }
data=$1 out=$2 results=$3
shift 3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$results"
# arm NAME MODEL OPTIONS...
arm() {
    local name=$1 model=$2
    shift 2
    bash examples/veco/retrieve.sh "$data" "$out" "$model" all "$@" --json "$results/$name.json" ${options[@]+"${options[@]}"} >"$results/$name.md"
    files+=("$results/$name.json")
}
options=("$@") files=()
for name in veco mlm-tlm mlm; do arm "$name" "$out/pretrained-$name/checkpoint_last.pt"; done
arm masked_lm "$MLM" --dict "$MLM/dict.txt"
"$PYTHON" -m fairseq_plugins.analysis.retrieval_comparison "${files[@]}" --json "$results/comparison.json" | tee "$results/comparison.md"
