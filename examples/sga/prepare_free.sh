#!/usr/bin/env bash
# Text to data-bin for one task of free generation, with the pieces and the dictionary of a masked LM.
#   bash examples/sga/prepare_free.sh TASK DATA OUT
# TASK and the folder DATA: question_generation (XQuAD: xquad.en.json), data_to_text (WebNLG: en.{train,dev,test}.{triples,text}),
# summarisation (DialogSum: {dev,test}.jsonl), pairs ({train,valid,test}.{source,target}, a line an example: the papers' sets).
# LANGUAGE=de takes another language of XQuAD, or of a WebNLG that has its test files; SOURCE and TARGET name the file endings of pairs; MLM=PATH another masked LM.
# MAX_TARGET=80: pieces of an output, as in DeltaLM's paper; longer ones are left out. TEST_LINES=N, VALID_LINES=N take N examples,
# spread over the set: WebNLG's are sorted by the number of triples. TEXT_ONLY=1 stops before the data-bin.
set -euo pipefail
[ $# -eq 3 ] || { sed -n 2,8p "$0" >&2; exit 2; }
task=$1 data=$2 out=$3
. "$(dirname "${BASH_SOURCE[0]}")/settings_free.sh"
language=${LANGUAGE:-en} text=$out/text
# Sources have <s> and </s> too; of a question's source the passage is cut, never the answer.
lengths=(--output-dir "$text" --model "$MLM/sentencepiece.bpe.model" --max-source $((max_source - 2)) --max-target "${MAX_TARGET:-80}")
mkdir -p "$out"
case $task in
    question_generation) "$PYTHON" -m data_prep.question_generation --inputs "$data/xquad.$language.json" "${lengths[@]}" ;;
    data_to_text)
        "$PYTHON" -m data_prep.triples --triples "$data/$language".{train,dev,test}.triples \
            --texts "$data/$language".{train,dev,test}.text --splits train valid test --grouped valid test "${lengths[@]}"
        ;;
    summarisation)
        # The set here has no training split: nine tenths of its development split take that place.
        head -n 450 "$data/dev.jsonl" >"$out/train.jsonl" && tail -n +451 "$data/dev.jsonl" >"$out/valid.jsonl"
        "$PYTHON" -m data_prep.summaries --inputs "$out"/{train,valid}.jsonl "$data/test.jsonl" --splits train valid test \
            "${lengths[@]}"
        ;;
    pairs) mkdir -p "$text" && cp "$data"/{train,valid,test}.{"$source","$target"} "$text/" ;;
esac
for split in test valid; do
    lines=TEST_LINES
    [ $split = test ] || lines=VALID_LINES
    [ -n "${!lines:-}" ] || continue
    for file in "$text/$split".*; do
        awk -v all="$(wc -l <"$file")" -v wanted="${!lines}" 'int(NR * wanted / all) > int((NR - 1) * wanted / all)' "$file" >"$text/some"
        mv "$text/some" "$file"
    done
done
[ -z "${TEXT_ONLY:-}" ] || exit 0
bash data_prep/preprocess.sh --text "$text" --model "$MLM/sentencepiece.bpe.model" --dict "$MLM/dict.txt" \
    --pairs "$source-$target" --splits train,valid,test --out "$out/bin" --workers 2
