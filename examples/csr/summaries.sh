#!/usr/bin/env bash
# Cross-lingual summarisation: JSON lines of documents and summaries to what prepare.sh makes of a pair; then restore.sh, finetune.sh,
# generate.sh (BEAM=6 SUBSET=test) and score.sh (SPLIT=test METRICS=rouge) as for translation.
#   bash examples/csr/summaries.sh DATA PIECES OUT [options of data_prep/lexicon.sh, as --segmenter]
# PAIR=en-zh: languages of document and summary. DATA holds {train,valid,test}.jsonl with the texts under the keys DOCUMENT=document and
# SUMMARY=summary. Documents are cut at MAX_SOURCE=220 words, summaries at MAX_TARGET=130 (160 for Chinese, in characters).
# UNIT=pieces counts pieces instead, for a model of few positions: UNIT=pieces MAX_SOURCE=250 for the small mBART.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,7p "$0" >&2; exit 2; }
data=$1 pieces=$2 out=$3
shift 3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
most=130 unit=()
[ "${UNIT:-words}" = words ] || unit=(--unit "$UNIT" --model "$pieces/sentencepiece.bpe.model")
[[ $target != zh && $target != zh_* ]] || most=160
"$PYTHON" -m data_prep.summaries --inputs "$data"/{train,valid,test}.jsonl --splits train valid test --source-key "${DOCUMENT:-document}" \
    --target-key "${SUMMARY:-summary}" --langs "$source" "$target" --output-dir "$out/text" --max-source "${MAX_SOURCE:-220}" \
    --max-target "${MAX_TARGET:-$most}" --cut-target ${unit[@]+"${unit[@]}"}
SPLITS=train,valid,test bash examples/csr/prepare.sh "$out/text" "$pieces" "$out" "$@"
