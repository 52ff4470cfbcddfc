#!/usr/bin/env bash
# A frozen model that knows the text of one task of free generation: pieces and a masked LM from its training pairs (MLM on both sides, TLM).
#   bash examples/sga/pretrain_free.sh TASK DATA OUT UPDATES [fairseq-train options]     before prepare_free.sh; run again to continue
# TASK and DATA as there. Then MLM=OUT/masked_lm for prepare_free.sh and train_free.sh. VOCAB=4000 pieces; WIDTH=256 as in pretrain_many.sh;
# POSITIONS=512 here as there.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,5p "$0" >&2; exit 2; }
task=$1 data=$2 out=$3 updates=$4
shift 4
. "$(dirname "${BASH_SOURCE[0]}")/settings_free.sh"
. examples/sga/settings_mlm.sh
base=$out/pretraining
if [ ! -e "$base/bin/manifest.json" ]; then
    # Its text alone, all of it: the lengths that training allows are in other pieces than those of MLM here.
    TEXT_ONLY=1 POSITIONS=8192 MAX_TARGET=4096 bash examples/sga/prepare_free.sh "$task" "$data" "$base/first"
    "$PYTHON" -m data_prep.spm train --inputs "$base/first/text/train."{"$source","$target"} --vocab-size "${VOCAB:-4000}" \
        --character-coverage 1.0 --model "$base/sentencepiece.bpe.model" --dict "$base/dict.txt"
    bash data_prep/preprocess.sh --text "$base/first/text" --model "$base/sentencepiece.bpe.model" --dict "$base/dict.txt" \
        --pairs "$source-$target" --splits train,valid --out "$base/bin" --workers 2
fi
pretrain_masked_lm "$base/bin" "$source-$target" "$source,$target" "$updates" "$base/checkpoints" "$@"
"$PYTHON" examples/export_masked_lm.py --checkpoint "$base/checkpoints/checkpoint_best.pt" --dict "$base/dict.txt" \
    --sentencepiece "$base/sentencepiece.bpe.model" --output "$out/masked_lm"
