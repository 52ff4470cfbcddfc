#!/usr/bin/env bash
# The multilingual transformer: a stock transformer from scratch on several pairs, for a given wall time, on the same pieces.
#   bash examples/sga/train_mtransformer.sh OUT NAME HOURS SEED [fairseq-train options]     run again to continue
# PAIR=en-de is validated and tested, PAIRS=en-de,en-fr train (for PAIR=de-en: de-en,fr-en). The best checkpoints are those with the lowest
# validation loss of PAIR: the stock task has no BLEU. Decode with evaluate.sh OUT NAME tagged.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4
shift 4
. "$(dirname "${BASH_SOURCE[0]}")/settings_tagged.sh"
mkdir -p "$out/$name"
fairseq-train "$out/bin" "${multilingual[@]}" --arch transformer --lr 0.004 --warmup-updates 1000 --seed "$seed" \
    --stop-time-hours "$hours" --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
