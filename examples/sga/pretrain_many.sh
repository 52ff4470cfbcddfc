#!/usr/bin/env bash
# The frozen model of the runs over several languages: MLM on all of them, TLM on the pairs that SGA is trained on.
#   bash examples/sga/pretrain_many.sh OUT UPDATES [fairseq-train options]     OUT was made by prepare_many.sh; run again to continue
# TRAINED, ZERO, TARGET as there; TLM_ZERO=1 puts the pairs of the zero-shot languages into TLM too (then the frozen model has seen
# translations, SGA still has not). WIDTH=256 and options such as --encoder-layers 6 set the size.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 updates=$2
shift 2
trained=${TRAINED:-de es fr ru} zero=${ZERO:-vi he eu} target=${TARGET:-en} width=${WIDTH:-256}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
pairs=() languages=("$target")
for language in $trained $zero; do
    languages+=("$language")
    case " $zero " in *" $language "*) [ "${TLM_ZERO:-0}" = 1 ] || continue ;; esac
    pairs+=("$language-$target")
done
fairseq-train "$out/bin" --user-dir fairseq_plugins --task tlm_pretraining \
    --pairs "$(IFS=,; echo "${pairs[*]}")" --monolingual "$(IFS=,; echo "${languages[*]}")" \
    --arch xlmr_mlm_tiny --encoder-embed-dim "$width" --encoder-ffn-embed-dim "$((4 * width))" --max-positions 512 --tokens-per-sample 256 \
    --mask-prob 0.15 --one-side-prob 0.7 --dropout 0.0 --attention-dropout 0.0 --criterion masked_lm \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.0008 --warmup-updates "$((updates / 20 + 1))" \
    --lr-scheduler polynomial_decay --total-num-update "$updates" --max-update "$updates" \
    --max-tokens 2048 --seed 1 --num-workers 0 --skip-invalid-size-inputs-valid-test --validate-interval-updates 1000 \
    --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints --log-format simple --log-interval 50 \
    --save-dir "$out/pretraining" "$@"
"${PYTHON:-python}" examples/export_masked_lm.py --checkpoint "$out/pretraining/checkpoint_best.pt" --dict "$out/dict.txt" \
    --sentencepiece "$out/sentencepiece.bpe.model" --output "$out/masked_lm"
