#!/usr/bin/env bash
# XNLI, PAWS-X, NER, parts of speech, XQuAD ... as CoNLL, CoNLL-U, SQuAD JSON or TSV -> data-bin of an understanding task.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bash data_prep/nlu.sh VERB OUT (--sentencepiece FILE | --codes FILE | --wordpiece FILE) [--dict FILE] [options] SPLIT.LANG=FILE...

  sentences   one or two texts per row, with a class    (TSV: XNLI, PAWS-X, news, QADSM, QAM)
  ranking     a query and a document, with a grade    (TSV: WPR)
  tags        words with tags                         (CoNLL, CoNLL-U: NER, parts of speech)
  questions   questions on passages                   (SQuAD JSON: XQuAD, MLQA, TyDiQA)

One call makes the data-bin of a task in all its languages and splits:

  bash data_prep/nlu.sh tags data-bin/pos --sentencepiece sentencepiece.bpe.model --dict dict.txt \
      train.en=en_lines.train.conllu valid.en=en_lines.dev.conllu test.de=de_gsd.test.conllu

The options of a verb: bash data_prep/nlu.sh VERB --help. A table of what was read, dropped and counted is printed and
written to OUT/README.md. OUT appears whole or not at all; a run's own OUT is replaced.
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
exec "$PYTHON" -m data_prep nlu "$@"
