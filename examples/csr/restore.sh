#!/usr/bin/env bash
# Stage 1: restore sentences of both languages whose words were switched.
#   bash examples/csr/restore.sh OUT MBART NAME UPDATES SEED [fairseq-train options]
# OUT was made by prepare.sh, MBART is a fairseq checkpoint. Goes to OUT/NAME; run again to continue. With --restore-updates N the other
# UPDATES are translation, and the best checkpoint is chosen as finetune.sh chooses it.
set -euo pipefail
[ $# -ge 5 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 mbart=$2 name=$3 updates=$4 seed=$5
shift 5
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
best=()
[[ " $* " != *" --restore-updates"* ]] || best=("${by_bleu[@]}")
stage "$name" "$updates" "$seed" --task code_switching_restore --lexicon "${LEXICON:-$out/lexicon}" \
    --sentencepiece-model "${PIECES:-$out/bin}/sentencepiece.bpe.model" --finetune-from-model "$mbart" \
    ${best[@]+"${best[@]}"} "$@"
