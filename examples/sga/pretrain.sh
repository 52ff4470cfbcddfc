#!/usr/bin/env bash
# The frozen model of the runs on Multi30k: a masked LM of XLM-R's shape, MLM + TLM over en, de and fr.
#   bash examples/sga/pretrain.sh OUT UPDATES [fairseq-train options]     OUT was made by prepare.sh; run again to continue
# The learning rate falls linearly to 0 at UPDATES. Then MLM=OUT/masked_lm for train_sga.sh and the others.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
out=$1 updates=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. examples/sga/settings_mlm.sh
pretrain_masked_lm "$out/bin" en-de,en-fr,de-fr en,de,fr "$updates" "$out/pretraining" "$@"
"${PYTHON:-python}" examples/export_masked_lm.py --checkpoint "$out/pretraining/checkpoint_best.pt" --dict "$out/dict.txt" \
    --sentencepiece "$out/sentencepiece.bpe.model" --output "$out/masked_lm"
