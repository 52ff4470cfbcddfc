#!/usr/bin/env bash
# Data-bin of a pair in the pieces of an mBART, and the lexicons of both directions learned from its training text.
#   bash examples/csr/prepare.sh DATA PIECES OUT [options of data_prep/lexicon.sh, as --segmenter]
# DATA holds train.*, valid.* and test_2016_flickr.* of the pair (SPLITS=train,valid,test names others); PIECES holds
# sentencepiece.bpe.model and dict.txt of the mBART.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,5p "$0" >&2; exit 2; }
data=$1 pieces=$2 out=$3
shift 3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
mkdir -p "$out"
bash data_prep/preprocess.sh --text "$data" --model "$pieces/sentencepiece.bpe.model" --dict "$pieces/dict.txt" --pairs "$pair" \
    --splits "${SPLITS:-train,valid,test_2016_flickr}" --out "$out/bin" --workers 2
bash data_prep/lexicon.sh --source "$data/train.$source" --target "$data/train.$target" --out "$out/lexicon" "$@"
