#!/usr/bin/env bash
# TED talks (Qi et al. 2018; SGA) -> text of any of their 60 languages, fetched or from a local archive.
set -euo pipefail

name=ted
default_pairs=ar-en,de-en,es-en,fr-en,he-en,it-en,ro-en,ru-en,tr-en,vi-en # SGA's ten

describe() {
    echo "TED talks of Qi et al. (2018): one archive, ted_talks.tar.gz, with all_talks_{train,dev,test}.tsv."
    echo "SGA's five zero-shot languages are kk, be, eu, ms, bs. Write zh_cn for zh-cn."
}

urls() {
    echo "http://phontron.com/data/ted_talks.tar.gz"
}

wanted() {
    printf '%s\n' '*all_talks_train.tsv' '*all_talks_dev.tsv' '*all_talks_test.tsv'
}

source "$(dirname "${BASH_SOURCE[0]}")/fetch.sh"
prepare_corpus "$@"
