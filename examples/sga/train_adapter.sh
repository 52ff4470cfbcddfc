#!/usr/bin/env bash
# Language adapters: the multilingual transformer of train_mtransformer.sh, then adapters in it, on the same pieces; PAIR, PAIRS as there.
#   bash examples/sga/train_adapter.sh OUT NAME HOURS SEED [fairseq-train options of the adapters]
# HOURS is the wall time of both together: half for the transformer, which goes to OUT/NAME/backbone, half for the adapters, OUT/NAME.
# BACKBONE=FILE takes a transformer that was trained with the same sizes and languages; then all of HOURS is for the adapters.
# BACKBONE_OPTIONS="--warmup-updates 250" are for the transformer; --cpu goes to both. Decode with evaluate.sh OUT NAME tagged.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,6p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4
shift 4
. "$(dirname "${BASH_SOURCE[0]}")/settings_tagged.sh"
backbone=${BACKBONE:-}
if [ -z "$backbone" ]; then
    hours=$(awk -v hours="$hours" 'BEGIN { printf "%.6f", hours / 2 }')
    backbone=$out/$name/backbone/checkpoint_best.pt
    # Once the adapters have begun, the transformer stays as it is.
    if [ ! -f "$out/$name/checkpoint_last.pt" ]; then
        device=()
        for option in "$@"; do [ "$option" != --cpu ] || device=(--cpu); done
        # shellcheck disable=SC2086  # BACKBONE_OPTIONS is several words
        bash examples/sga/train_mtransformer.sh "$out" "$name/backbone" "$hours" "$seed" ${BACKBONE_OPTIONS:-} "${device[@]}"
    fi
fi
mkdir -p "$out/$name"
fairseq-train "$out/bin" "${multilingual[@]}" --arch transformer_adapter_tiny --adapter-backbone "$backbone" --lr 0.002 --find-unused-parameters \
    --warmup-updates 200 --seed "$seed" --stop-time-hours "$hours" --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
