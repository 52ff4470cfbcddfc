#!/usr/bin/env bash
# The small mBART of the miniatures: stock multilingual_denoising over en, de, fr and es.
#   bash examples/miniature/mbart/pretrain.sh OUT UPDATES [fairseq-train options]    OUT was made by prepare.sh
# Goes to OUT/mbart; run again to continue. The learning rate falls linearly to 0 at UPDATES.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
out=$1 updates=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
. examples/miniature/mbart/settings.sh
mkdir -p "$out/mbart"
# shellcheck disable=SC2086  # $mbart_args is several words
fairseq-train "$out/bin" --user-dir fairseq_plugins --task multilingual_denoising --langs "$langs" --add-lang-token \
    --multilang-sampling-alpha 0.7 --mask 0.35 --mask-random 0.1 --mask-length span-poisson --poisson-lambda 3.5 --replace-length 1 \
    --tokens-per-sample 128 --sample-break-mode complete \
    $mbart_args --dropout 0.1 \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
    --lr 0.002 --lr-scheduler polynomial_decay --warmup-updates 500 --total-num-update "$updates" --max-update "$updates" \
    --max-tokens 2048 --seed 1 --num-workers 0 --validate-interval-updates 500 --save-interval-updates 250 \
    --keep-interval-updates 1 --no-epoch-checkpoints --log-format simple --log-interval 50 --save-dir "$out/mbart" "$@"
