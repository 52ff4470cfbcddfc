#!/usr/bin/env bash
# For train_mbart.sh: the pairs of OUT/bin in the mBART's own pieces, and the mBART as a fairseq checkpoint.
#   bash examples/sga/prepare_mbart.sh OUT     OUT was made by prepare.sh; goes to OUT/mbart; run again after a stop
# The text is what the pieces of OUT/bin say: raw text, normalised as sentencepiece does it, so that the folder of the raw text need not be
# there. MBART=FOLDER takes another mBART, as fairseq_plugins.checkpoints.export writes it, with sentencepiece.bpe.model and dict.txt; LANGS are
# its languages. The data-bin has its names (en_XX for en); pairs of languages that it lacks are left out.
set -euo pipefail
[ $# -eq 1 ] || { sed -n 2,6p "$0" >&2; exit 2; }
out=$1 mbart=${MBART:-examples/miniature/mbart/model}
. "$(dirname "${BASH_SOURCE[0]}")/../csr/settings.sh"
pieces=$out/bin/pieces
[ -d "$pieces" ] || { echo "OUT $out: no $pieces; valid: a folder made by prepare.sh" >&2; exit 2; }
pairs=() languages=()
for name in $(for file in "$out"/bin/train.*-*.*.idx; do cut -d. -f2 <<<"${file##*/}"; done | sort -u); do
    if first=$(own_name "${name%-*}") && second=$(own_name "${name#*-}"); then
        pairs+=("$first-$second") languages+=("${name%-*}" "${name#*-}")
    else
        echo "the pair $name is left out" >&2
    fi
done
[ ${#pairs[@]} -gt 0 ] || { echo "LANGS is $langs; valid: both languages of a pair of $out/bin among them" >&2; exit 2; }
inputs=() outputs=() splits=()
for language in $(printf '%s\n' "${languages[@]}" | sort -u); do
    for file in "$pieces"/*."$language"; do
        [ -f "$file" ] || { echo "OUT $out: no $file; valid: a data-bin whose pairs share their sentences (not --per-pair)" >&2; exit 2; }
        split=${file##*/} split=${split%.*}
        inputs+=("$file") outputs+=("$out/mbart/text/$split.$(own_name "$language")") splits+=("$split")
    done
done
splits=$(printf '%s\n' "${splits[@]}" | sort -u | paste -sd,) pairs=$(IFS=, && echo "${pairs[*]}")
mkdir -p "$out/mbart/text"
"$PYTHON" -m data_prep.spm decode --model "$out/bin/sentencepiece.bpe.model" --inputs "${inputs[@]}" --outputs "${outputs[@]}"
"$PYTHON" -m fairseq_plugins.checkpoints.export import "$mbart" "$out/mbart/mbart.pt"
bash data_prep/preprocess.sh --text "$out/mbart/text" --model "$mbart/sentencepiece.bpe.model" --dict "$mbart/dict.txt" \
    --pairs "$pairs" --splits "$splits" --out "$out/mbart/bin" --workers 2
echo "$mbart $langs" >"$out/mbart/made_with"
