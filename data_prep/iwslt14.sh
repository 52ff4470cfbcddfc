#!/usr/bin/env bash
# IWSLT 2014 German-English (code-switching restore) -> text, fetched or from a local archive; other years from archives.
set -euo pipefail

name=iwslt14
default_pairs=de-en

describe() {
    echo "IWSLT 2014: one archive, de-en.tgz, with de-en/train.tags.de-en.de and de-en/IWSLT14.TED.tst2012.de-en.de.xml."
    echo "The paper drops duplicates: -- --dedup tuple; for figures on lower-cased text: -- --lower-case --dedup tuple."
    echo "Every 23rd line of train becomes valid. Other pairs and years in this layout: --archive, --pairs, and -- --test-sets."
}

urls() {
    case "$pairs" in
        de-en | en-de) echo "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz" ;;
        *) fail "--pairs $pairs: only de-en can be fetched; valid: the archives of other pairs, --archive FILE..." ;;
    esac
}

wanted() {
    printf '%s\n' '*train.tags.*' '*.xml'
}

source "$(dirname "${BASH_SOURCE[0]}")/fetch.sh"
prepare_corpus "$@"
