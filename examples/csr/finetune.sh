#!/usr/bin/env bash
# Stage 2, and the baseline: stock translation_from_pretrained_bart.
#   bash examples/csr/finetune.sh OUT START NAME UPDATES SEED [fairseq-train options]
# START is the checkpoint of stage 1, or for the baseline that of the mBART: give it the updates of both stages. Goes to OUT/NAME.
set -euo pipefail
[ $# -ge 5 ] || { sed -n 2,4p "$0" >&2; exit 2; }
out=$1 start=$2 name=$3 updates=$4 seed=$5
shift 5
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# Stock tasks count the hours of the checkpoint that they start from for --stop-time-hours: an average has none.
mkdir -p "$out/$name"
[ -e "$out/$name/start.pt" ] || "$PYTHON" -m fairseq_plugins.checkpoints.average --inputs "$start" --output "$out/$name/start.pt"
stage "$name" "$updates" "$seed" --task translation_from_pretrained_bart --finetune-from-model "$out/$name/start.pt" \
    "${by_bleu[@]}" "$@"
