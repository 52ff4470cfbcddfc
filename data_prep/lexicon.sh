#!/usr/bin/env bash
# Two texts -> words -> word vectors -> one space -> lexicons of both directions, without any translation.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bash data_prep/lexicon.sh --source corpus.en --target corpus.de --out DIR [options]

  --source FILE         text of one language, one sentence per line
  --target FILE         text of the other; the two need not be translations of each other
  --out DIR             gets SOURCE-TARGET.tsv and TARGET-SOURCE.tsv (word, candidate, score, rank), and in
                        DIR/SOURCE-TARGET the words, the vectors, the mapped vectors, map.json and, last, manifest.json
  --source-lang LANG    default: the ending of --source; --target-lang LANG in the same way
  --segmenter NAME      for Chinese, Japanese, Thai: character, spaces (segmented already), or MODULE:FUNCTION;
                        --source-segmenter, --target-segmenter: of one side alone
  --top N               candidates of a word (default: 10)

All options, with those of each step: python -m data_prep lexicon --help.
Run it again after a change or a kill: steps whose inputs (by hash) and options are unchanged are skipped.
The Python that runs it is that of the variable PYTHON (default: python).
TEXT
}

case "${1:-}" in
    '' ) usage >&2; exit 2 ;;
    --help | -h) usage; exit 0 ;;
esac
PYTHON=${PYTHON:-python}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "$PYTHON" -m data_prep lexicon "$@"
