# What the corpus scripts share (ted.sh, iwslt14.sh, wmt14.sh, ml50.sh): options, fetching, extracting, the verb.
# A script sets name and default_pairs, and the functions describe, urls and wanted (addresses and patterns of the archives'
# members, one per line, for $pairs), reads this file and calls prepare_corpus "$@".

usage() {
    cat <<TEXT
usage: bash data_prep/$name.sh --out DIR [--pairs PAIRS] [--archive FILE...] [--workers N] [-- VERB OPTIONS]

$(describe)

  --out DIR          gets DIR/archives, DIR/raw and DIR/text; DIR/text/manifest.json comes last
  --pairs PAIRS      language pairs SRC-TGT, separated by commas${default_pairs:+ (default: $default_pairs)}
  --archive FILE...  local copies of the archives; nothing is then fetched
  --workers N        pairs at a time (default: 1)
  -- VERB OPTIONS    what follows goes to the verb: python -m data_prep $name --help

Run it again after a kill: what was fetched, extracted and made is not done again.
The Python that runs it is that of the variable PYTHON (default: python).
TEXT
}

say() {
    echo "$name: $*" >&2
}

fail() {
    echo "$name: error: $*" >&2
    exit 2
}

parse_options() {
    out= pairs=$default_pairs workers=1 archives=() rest=()
    while [ $# -gt 0 ]; do
        case "$1" in
            --help | -h) usage; exit 0 ;;
            --) shift; rest=("$@"); break ;;
            --out | --pairs | --workers)
                [ $# -ge 2 ] || fail "$1: its value is missing"
                case "$1" in --out) out=$2 ;; --pairs) pairs=$2 ;; --workers) workers=$2 ;; esac
                shift 2 ;;
            --archive)
                shift
                [ $# -gt 0 ] && [[ $1 != --* ]] || fail "--archive: its value is missing"
                while [ $# -gt 0 ] && [[ $1 != --* ]]; do archives+=("$1"); shift; done ;;
            *) fail "$1: unknown option; valid options are listed by --help" ;;
        esac
    done
    [ -n "$out" ] || fail "--out: missing; see --help"
    [ -n "$pairs" ] || fail "--pairs: missing; valid: language pairs, as de-en,fr-en"
    case "$workers" in '' | *[!0-9]* | 0*) fail "--workers $workers: valid: a whole number, 1 or more" ;; esac
    # A path that begins with a dash would be taken for an option.
    [[ $out != -* ]] || out=./$out
    for number in ${archives[@]+"${!archives[@]}"}; do
        [[ ${archives[number]} != -* ]] || archives[number]=./${archives[number]}
        [ -f "${archives[number]}" ] || fail "--archive ${archives[number]}: no such file"
    done
}

bytes_of() {
    if [ -f "$1" ]; then wc -c <"$1" | tr -d ' '; else echo 0; fi
}

# fetch URL FILE: a file that is there is kept, a part of it is continued.
fetch() {
    local url=$1 file=$2 status=0
    if [ -f "$file" ]; then
        say "$(basename "$file"): there already, $(bytes_of "$file") bytes"
        return
    fi
    command -v curl >/dev/null || fail "curl is missing, cannot fetch $url; valid: local copies, --archive FILE..."
    say "fetching $url"
    download "$url" "$file" || status=$?
    case "$status" in
        22 | 33 | 36) # the server does not continue what is there: once more from the start
            if [ -f "$file.part" ]; then
                rm -f "$file.part"
                status=0
                download "$url" "$file" || status=$?
            fi ;;
    esac
    if [ "$status" -ne 0 ]; then
        fail "cannot fetch $url ($(tail -n 1 "$file.log" | tr -d '\n'); status $status); is there internet?" \
            "valid: local copies, --archive FILE..."
    fi
    rm -f "$file.log"
    mv "$file.part" "$file"
    say "$(basename "$file"): $(bytes_of "$file") bytes"
}

download() {
    local url=$1 file=$2 status=0 waited=0
    curl --fail --location --silent --show-error --retry 2 --connect-timeout 20 --continue-at - --output "$file.part" "$url" \
        2>"$file.log" &
    fetching=$!
    trap 'kill "$fetching" 2>/dev/null || true' EXIT
    while kill -0 "$fetching" 2>/dev/null; do
        sleep 0.2
        waited=$((waited + 1))
        [ $((waited % 25)) -ne 0 ] || say "$(basename "$file"): $(bytes_of "$file.part") bytes so far"
    done
    wait "$fetching" || status=$?
    trap - EXIT
    return "$status"
}

prepare_corpus() {
    parse_options "$@"
    PYTHON=${PYTHON:-python}
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
    mkdir -p "$out"
    . "$root/data_prep/lock.sh"
    lock_output "$name" "$out/.lock" "--out $out"
    if [ ${#archives[@]} -eq 0 ]; then
        say "[1/3] archives in $out/archives"
        mkdir -p "$out/archives"
        list=$(urls) || exit $?
        while IFS= read -r url; do
            fetch "$url" "$out/archives/$(basename "$url")"
            archives+=("$out/archives/$(basename "$url")")
        done <<<"$list"
    else
        say "[1/3] ${#archives[@]} local archives"
    fi
    say "[2/3] extracting into $out/raw"
    members=()
    while IFS= read -r pattern; do members+=("$pattern"); done < <(wanted)
    "$PYTHON" -m data_prep extract --archives "${archives[@]}" --output "$out/raw" --members "${members[@]}"
    say "[3/3] text of $pairs in $out/text"
    "$PYTHON" -m data_prep "$name" --raw "$out/raw" --output "$out/text" --pairs "$pairs" --workers "$workers" \
        ${rest[@]+"${rest[@]}"}
    say "done; next: bash data_prep/preprocess.sh --per-pair --text $out/text --pairs $pairs --model ... --dict ... --out ..."
}
