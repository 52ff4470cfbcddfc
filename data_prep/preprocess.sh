#!/usr/bin/env bash
# Raw text -> pieces (sentencepiece or BPE codes) -> fairseq-preprocess -> data-bin folder with a manifest.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bash data_prep/preprocess.sh --text DIR (--model FILE | --codes FILE) --dict FILE --pairs en-de,en-fr --out DIR [options]

  --text DIR            raw text: files SPLIT.LANG, as train.en (UTF-8, one sentence per line)
  --model FILE          sentencepiece model
  --codes FILE          BPE codes instead of a model (fastBPE, subword-nmt, GPT); words are what spaces separate
  --dict FILE           fairseq dictionary, used for both sides of every pair
  --target-dict FILE    dictionary of the targets in place of --dict, as python -m data_prep cut_vocabulary cuts it
  --pairs PAIRS         language pairs SRC-TGT, separated by commas
  --out DIR             gets the binary files, dict.txt, the model or codes, the pieces (in DIR/pieces) and, last,
                        manifest.json
  --per-pair            every pair has sentences of its own: the text is in SRC-TGT/SPLIT.LANG, as de-en/train.de
  --workers N           files and pairs at a time, processes of fairseq-preprocess (default: 1)
  --splits NAMES        splits, separated by commas (default: train,valid,test)
  --max-unknown R       largest share of unknown pieces in a file (default: 0.2)
  --allow-empty-lines   accept lines without text
  --keep-sentence-ends  </s> between words is fairseq's symbol, not text (corpora --sentence-separator '</s>')

Run it again after a change or a kill: steps whose inputs are unchanged (by hash) are skipped.
The Python that runs it is that of the variable PYTHON (default: python).
TEXT
}

fail() {
    echo "preprocess: error: $*" >&2
    exit 2
}

text= model= codes= dict= target_dict= pairs= out= workers=1 splits=train,valid,test max_unknown=0.2 allow_empty= per_pair= keep_ends=
while [ $# -gt 0 ]; do
    case "$1" in
        --help | -h) usage; exit 0 ;;
        --allow-empty-lines) allow_empty=--allow-empty-lines; shift; continue ;;
        --keep-sentence-ends) keep_ends=--keep-sentence-ends; shift; continue ;;
        --per-pair) per_pair=--per-pair; shift; continue ;;
        --text | --model | --codes | --dict | --target-dict | --pairs | --out | --workers | --splits | --max-unknown) ;;
        *) fail "$1: unknown option; valid options are listed by --help" ;;
    esac
    [ $# -ge 2 ] || fail "$1: its value is missing"
    case "$1" in
        --text) text=$2 ;;
        --model) model=$2 ;;
        --codes) codes=$2 ;;
        --dict) dict=$2 ;;
        --target-dict) target_dict=$2 ;;
        --pairs) pairs=$2 ;;
        --out) out=$2 ;;
        --workers) workers=$2 ;;
        --splits) splits=$2 ;;
        --max-unknown) max_unknown=$2 ;;
    esac
    shift 2
done
for option in text dict pairs out; do
    [ -n "${!option}" ] || fail "--$option: missing; see --help"
done
# A path that begins with a dash would be taken for an option.
for option in text model codes dict target_dict out; do
    [[ ${!option} != -* ]] || printf -v "$option" ./%s "${!option}"
done
[ -n "$model$codes" ] || fail "--model: missing; valid: --model or --codes, see --help"
[ -z "$model" ] || [ -z "$codes" ] || fail "--codes $codes: given together with --model; valid: one of them"
case "$workers" in '' | *[!0-9]* | 0*) fail "--workers $workers: valid: a whole number, 1 or more" ;; esac
if [ -n "$codes" ]; then
    verb=bpe option=codes segmenter=$codes kept=codes.bpe
    origin="--codes comes from: python -m data_prep bpe learn, --dict from: python -m data_prep bpe dict"
else
    verb=spm option=model segmenter=$model kept=sentencepiece.bpe.model
    origin="--model and --dict come from: python -m data_prep spm train"
fi
for file in "$segmenter" "$dict" ${target_dict:+"$target_dict"}; do
    [ -f "$file" ] || fail "$file: no such file; $origin"
done

PYTHON=${PYTHON:-python}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"

echo "preprocess: [1/4] checking the text in $text" >&2
names=$("$PYTHON" -m data_prep check --text "$text" --pairs "$pairs" --splits "$splits" $allow_empty $per_pair)
targets=,
if [ -n "$target_dict" ]; then
    IFS=, read -ra names_of_pairs <<<"$pairs"
    for pair in "${names_of_pairs[@]}"; do targets+=${pair#*-},; done
fi
inputs=() outputs=() target_inputs=() target_outputs=()
while IFS= read -r name; do
    if [[ $targets == *",${name##*.},"* ]]; then
        target_inputs+=("$text/$name")
        target_outputs+=("$out/pieces/$name")
    else
        inputs+=("$text/$name")
        outputs+=("$out/pieces/$name")
    fi
done <<<"$names"

echo "preprocess: [2/4] text to pieces in $out/pieces" >&2
mkdir -p "$out/pieces" "$out/.steps"
. "$root/data_prep/lock.sh"
lock_output preprocess "$out/.steps/lock" "--out $out"
# A manifest stands for a complete folder. The others are what a kill left behind.
rm -f "$out/manifest.json" "$out"/pieces/.*.tmp-* "$out"/pieces/*/.*.tmp-* "$out"/.*.tmp-*
apply=("$PYTHON" -m data_prep "$verb" apply "--$option" "$segmenter" --max-unknown "$max_unknown" --steps "$out/.steps"
    --workers "$workers" $keep_ends)
if [ ${#inputs[@]} -gt 0 ]; then
    "${apply[@]}" --dict "$dict" --inputs "${inputs[@]}" --outputs "${outputs[@]}"
fi
if [ ${#target_inputs[@]} -gt 0 ]; then
    "${apply[@]}" --dict "$target_dict" --inputs "${target_inputs[@]}" --outputs "${target_outputs[@]}"
fi

echo "preprocess: [3/4] pieces to binary files in $out" >&2
"$PYTHON" -m data_prep binarize --pieces "$out/pieces" --pairs "$pairs" --splits "$splits" --dict "$dict" \
    ${target_dict:+--target-dict "$target_dict"} --output "$out" --workers "$workers" $per_pair

echo "preprocess: [4/4] $out/manifest.json" >&2
if [ ! "$segmenter" -ef "$out/$kept" ]; then
    cp "$segmenter" "$out/.model.tmp-$$"
    mv "$out/.model.tmp-$$" "$out/$kept"
fi
"$PYTHON" -m data_prep manifest --data "$out" --pairs "$pairs" --splits "$splits" $per_pair
echo "preprocess: done: $out" >&2
