#!/usr/bin/env bash
# Language adapters: a stock multilingual transformer from scratch, then adapters in it, for a given wall time each, on the same pieces.
#   bash examples/sga/train_adapter.sh OUT NAME HOURS SEED [fairseq-train options of the adapters]
# PAIRS=de-en,fr-en chooses the pairs; BACKBONE=FILE takes a transformer that was trained with the same sizes and languages.
# The runs go to OUT/NAME_backbone and OUT/NAME; each of them takes HOURS. Decoding, say French, needs the same --task, --lang-pairs and language tokens:
#   fairseq-generate OUT/bin --user-dir fairseq_plugins --task translation_multi_simple_epoch --lang-pairs de-en,fr-en --langs de,en,fr \
#       --encoder-langtok src --decoder-langtok -s fr -t en --path OUT/NAME/checkpoint_best.pt --gen-subset test_2016_flickr
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,7p "$0" >&2; exit 2; }
out=$1 name=$2 hours=$3 seed=$4 pairs=${PAIRS:-de-en,fr-en}
shift 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
langs=$(tr ',-' '\n\n' <<<"$pairs" | sort -u | paste -sd,)
common=("$out/bin" --user-dir fairseq_plugins --task translation_multi_simple_epoch --lang-pairs "$pairs" --langs "$langs"
    --encoder-langtok src --decoder-langtok --sampling-method temperature --sampling-temperature 2
    --encoder-layers 3 --decoder-layers 3 --encoder-embed-dim 128 --decoder-embed-dim 128
    --encoder-ffn-embed-dim 512 --decoder-ffn-embed-dim 512 --encoder-attention-heads 4 --decoder-attention-heads 4
    --share-all-embeddings --dropout 0.2 --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt --max-tokens 2048 --seed "$seed" --num-workers 0
    --stop-time-hours "$hours" --max-epoch 1000 --keep-best-checkpoints 5 --validate-interval-updates 500
    --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints --log-format json --log-interval 50)
backbone=${BACKBONE:-$out/${name}_backbone/checkpoint_best.pt}
if [ -z "${BACKBONE:-}" ]; then
    mkdir -p "$out/${name}_backbone"
    fairseq-train "${common[@]}" --arch transformer --lr 0.004 --warmup-updates 1000 --save-dir "$out/${name}_backbone" \
        2>&1 | tee -a "$out/${name}_backbone/train.log"
fi
mkdir -p "$out/$name"
fairseq-train "${common[@]}" --arch transformer_adapter_tiny --adapter-backbone "$backbone" --lr 0.002 --warmup-updates 200 \
    --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
