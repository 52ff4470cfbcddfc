#!/usr/bin/env bash
# Continue an mBART with multilingual translation, by stock translation_multi_simple_epoch.
#   bash examples/mt_transfer/continue.sh OUT MBART KIND UPDATES [fairseq-train options]
# OUT was made by prepare.sh; MBART is a checkpoint of multilingual denoising; KIND is m2m (every direction), m2o (into English) or o2m
# (out of English). Goes to OUT/KIND; run again to continue. LANGS has all languages of MBART in their order, TEXTS those of OUT.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 mbart=$2 kind=$3 updates=$4
shift 4
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
pairs=()
for source in ${texts//,/ }; do
    for target in ${texts//,/ }; do
        [ "$source" != "$target" ] || continue
        case $kind in
            m2m) ;;
            m2o) [[ $target == en || $target == en_* ]] || continue ;;
            o2m) [[ $source == en || $source == en_* ]] || continue ;;
            *)
                echo "KIND is '$kind'; valid: m2m, m2o, o2m" >&2
                exit 2
                ;;
        esac
        pairs+=("$source-$target")
    done
done
mkdir -p "$out/$kind"
# shellcheck disable=SC2086  # $mbart_args is several words
fairseq-train "$out/mt" --user-dir fairseq_plugins --task translation_multi_simple_epoch --langs "$langs" \
    --lang-pairs "$(IFS=,; echo "${pairs[*]}")" --lang-tok-style mbart --encoder-langtok src --decoder-langtok \
    --sampling-method temperature --sampling-temperature 1.5 $mbart_args --finetune-from-model "$mbart" --dropout 0.1 \
    --criterion label_smoothed_linear_cross_entropy --label-smoothing 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
    --lr 0.001 --lr-scheduler polynomial_decay --warmup-updates $((updates / 10)) --total-num-update "$updates" --max-update "$updates" \
    --max-tokens 2048 --seed "${SEED:-1}" --num-workers 0 --validate-interval-updates 500 --save-interval-updates 250 \
    --keep-interval-updates 1 --no-epoch-checkpoints --skip-invalid-size-inputs-valid-test --log-format json --log-interval 50 \
    --save-dir "$out/$kind" "$@" 2>&1 | tee -a "$out/$kind/train.log"
