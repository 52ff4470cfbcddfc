#!/usr/bin/env bash
# XNLI with the frozen vectors of the pre-trainings of pretrain_arms.sh and of the masked LM that they start from: a classifier is trained on English
# pairs and tested in en, de and fr; a paired test of VECO against each.
#   bash examples/veco/probe_arms.sh DATA OUT RESULTS [options of the probe]
# DATA holds xnli; OUT was made by prepare.sh and pretrain_arms.sh. Writes RESULTS/NAME.json, NAME.md and comparison.md, .json.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,5p "$0" >&2; exit 2; }
data=$1 out=$2 results=$3
shift 3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$results"
options=("$@") files=()
# arm NAME MODEL OPTIONS...
arm() {
    local name=$1 model=$2
    shift 2
    "$PYTHON" -m fairseq_plugins.analysis.pair_probe "$model" --train "en=$data/xnli/mnli_train.en.tsv" --dev "en=$data/xnli/dev.en.tsv" \
        --test "en=$data/xnli/test.en.tsv" --test "de=$data/xnli/test.de.tsv" --test "fr=$data/xnli/test.fr.tsv" \
        --sentencepiece "$MLM/sentencepiece.bpe.model" "$@" --json "$results/$name.json" ${options[@]+"${options[@]}"} >"$results/$name.md"
    files+=("$results/$name.json")
}
for name in veco mlm-tlm mlm random; do arm "$name" "$out/pretrained-$name/checkpoint_last.pt" --dict "$out/dict.txt"; done
arm masked_lm "$MLM" --dict "$MLM/dict.txt"
"$PYTHON" -m fairseq_plugins.analysis.retrieval_comparison "${files[@]}" --json "$results/comparison.json" | tee "$results/comparison.md"
