#!/usr/bin/env bash
# The frozen model of the runs over several languages: MLM on all of them, TLM on the pairs that SGA is trained on.
#   bash examples/sga/pretrain_many.sh OUT UPDATES [fairseq-train options]     OUT was made by prepare_many.sh; run again to continue
# TRAINED, ZERO, TARGET as there; TLM_ZERO=1 puts the pairs of the zero-shot languages into TLM too (then the frozen model has seen
# translations, SGA still has not). WIDTH=256 and options such as --encoder-layers 6 set the size.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 updates=$2
shift 2
trained=${TRAINED:-de es fr ru} zero=${ZERO:-vi he eu} target=${TARGET:-en}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. examples/sga/settings_mlm.sh
pairs=() languages=("$target")
for language in $trained $zero; do
    languages+=("$language")
    case " $zero " in *" $language "*) [ "${TLM_ZERO:-0}" = 1 ] || continue ;; esac
    pairs+=("$language-$target")
done
pretrain_masked_lm "$out/bin" "$(IFS=,; echo "${pairs[*]}")" "$(IFS=,; echo "${languages[*]}")" "$updates" "$out/pretraining" "$@"
"${PYTHON:-python}" examples/export_masked_lm.py --checkpoint "$out/pretraining/checkpoint_best.pt" --dict "$out/dict.txt" \
    --sentencepiece "$out/sentencepiece.bpe.model" --output "$out/masked_lm"
