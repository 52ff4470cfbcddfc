#!/usr/bin/env bash
# For train_mbart.sh: the pairs of OUT/bin in the mBART's own pieces, and the mBART as a fairseq checkpoint.
#   bash examples/sga/prepare_mbart.sh OUT     OUT was made by prepare.sh; goes to OUT/mbart; run again after a stop
# The text is what the pieces of OUT/bin say: raw text, normalised as sentencepiece does it, so that the folder of the raw text need not be
# there. MBART=FOLDER takes another mBART, as fairseq_plugins.checkpoints.export writes it, with sentencepiece.bpe.model and dict.txt.
set -euo pipefail
[ $# -eq 1 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 mbart=${MBART:-examples/miniature/mbart/model}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHON=${PYTHON:-python}
pieces=$out/bin/pieces
[ -d "$pieces" ] || { echo "OUT $out: no $pieces; valid: a folder made by prepare.sh" >&2; exit 2; }
files=()
for file in "$pieces"/*.*; do files+=("${file##*/}"); done
splits=$(printf '%s\n' "${files[@]%.*}" | sort -u | paste -sd,)
pairs=$(for file in "$out"/bin/train.*-*.*.idx; do cut -d. -f2 <<<"${file##*/}"; done | sort -u | paste -sd,)
mkdir -p "$out/mbart/text"
"$PYTHON" -m data_prep.spm decode --model "$out/bin/sentencepiece.bpe.model" --inputs "${files[@]/#/$pieces/}" \
    --outputs "${files[@]/#/$out/mbart/text/}"
"$PYTHON" -m fairseq_plugins.checkpoints.export import "$mbart" "$out/mbart/mbart.pt"
bash data_prep/preprocess.sh --text "$out/mbart/text" --model "$mbart/sentencepiece.bpe.model" --dict "$mbart/dict.txt" \
    --pairs "$pairs" --splits "$splits" --out "$out/mbart/bin" --workers 2
