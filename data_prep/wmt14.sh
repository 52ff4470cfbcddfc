#!/usr/bin/env bash
# WMT 2014 English-German and English-French (VECO) -> text, fetched or from local archives.
set -euo pipefail

name=wmt14
default_pairs=en-de

describe() {
    echo "WMT 2014: training-parallel-europarl-v7.tgz, -commoncrawl.tgz, -nc-v9.tgz (French also -un.tgz and -giga-fren.tar),"
    echo "test-full.tgz. Every 100th (French: 1333rd) line of train becomes valid; newstest2013 instead:"
    echo "-- --valid-set newstest2013 (its archive is dev.tgz). One pair per run."
}

urls() {
    local base=https://www.statmt.org
    case "$pairs" in en-de | de-en | en-fr | fr-en) ;; *) fail "--pairs $pairs: valid: one of en-de, de-en, en-fr, fr-en" ;; esac
    echo "$base/wmt13/training-parallel-europarl-v7.tgz"
    echo "$base/wmt13/training-parallel-commoncrawl.tgz"
    echo "$base/wmt14/training-parallel-nc-v9.tgz"
    case "$pairs" in
        *fr*) echo "$base/wmt13/training-parallel-un.tgz"; echo "$base/wmt10/training-giga-fren.tar" ;;
    esac
    echo "$base/wmt14/test-full.tgz"
    case " ${rest[*]-} " in *" --valid-set "*) echo "$base/wmt14/dev.tgz" ;; esac
}

wanted() {
    local lang=de
    case "$pairs" in *fr*) lang=fr ;; esac
    printf '%s\n' "*europarl-v7.$lang-en.*" "*commoncrawl.$lang-en.*" "*news-commentary-v9.$lang-en.*" \
        "*undoc.2000.$lang-en.*" '*giga-fren.release2.fixed.*' '*newstest201?-*.sgm' '*newstest201?.??'
}

source "$(dirname "${BASH_SOURCE[0]}")/fetch.sh"
prepare_corpus "$@"
