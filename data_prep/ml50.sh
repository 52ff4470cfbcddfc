#!/usr/bin/env bash
# ML50 (machine translation as continued pre-training) -> text, from what fairseq's download scripts left.
set -euo pipefail

name=ml50
default_pairs=all

describe() {
    echo "ML50 has no archive of its own: run examples/multilingual/data_scripts/download_ML50_v1.sh of fairseq, pack its folder"
    echo "ML50/raw (tar czf ml50.tar.gz -C ML50 raw) and give that. It holds train.de_DE-en_XX.de_DE, train.de_DE-en_XX.en_XX and"
    echo "so on, also valid and test."
}

urls() {
    fail "ML50 cannot be fetched as a whole; valid: --archive FILE... with what fairseq's download_ML50_v1.sh made (see --help)"
}

wanted() {
    printf '%s\n' '*train.*-*.*' '*valid.*-*.*' '*test.*-*.*'
}

source "$(dirname "${BASH_SOURCE[0]}")/fetch.sh"
prepare_corpus "$@"
