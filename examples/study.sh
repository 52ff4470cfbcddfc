#!/usr/bin/env bash
# A study of examples/studies: text, data-bins, what runs start from, tuning, final runs, ledger.json, page.md and plot.svg.
#   bash examples/study.sh NAME DATA OUT [JOBS [DEVICE]]     run again to continue
# NAME is a file of examples/studies, DATA the folder of its raw text, JOBS the number of runs side by side (1; for equal wall times
# the same for the whole study), DEVICE cpu or cuda. A run that fails is listed, the others go on. In the environment: PUBLISHED=1 takes runs
# that examples/results has from there, where today's code made them; SIZE=paper has the papers' settings; DRY_RUN=1 prints the commands alone.
set -euo pipefail
[ $# -ge 3 ] && [ $# -le 5 ] || { sed -n 2,6p "$0" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
study=$root/examples/studies/$1.yaml data=$(realpath -m -- "$2") out=$(realpath -m -- "$3")
[ ! -f "$1" ] || study=$(realpath -- "$1")
size=${SIZE:-small}
if [ -n "${DRY_RUN:-}" ]; then
    export PYTHONPATH=$root:$root/examples${PYTHONPATH:+:$PYTHONPATH} PYTHONWARNINGS=ignore
    exec python -m examples.recipes.dry_run --study="$study" --data="$data" --size="$size" --device="${5:-cpu}"
fi
[ "$size" = small ] || [ -z "${PUBLISHED:-}" ] || { echo "study: PUBLISHED=1: the published runs are of SIZE=small" >&2; exit 2; }
snakemake=${SNAKEMAKE:-snakemake}
command -v "$snakemake" >/dev/null || { echo "study: no $snakemake; run: make recipes" >&2; exit 2; }
export PYTHONPATH=$root:$root/examples${PYTHONPATH:+:$PYTHONPATH} PYTHONWARNINGS=ignore

mkdir -p "$out"
. "$root/data_prep/lock.sh"
lock_output study "$out/.study" "OUT=$3"
# Paths are settings in a file: on its command line Snakemake reads them as YAML, in which " #" would end one.
python -c 'import json, sys; print(json.dumps(dict(zip(("study", "data"), sys.argv[1:]))))' "$study" "$data" >"$out/.paths.json"
[ -z "${PUBLISHED:-}" ] || python -m examples.recipes.results --restore "$out" --study="$1"
# run TARGET [SETTING...]
run() {
    local target=$1
    shift
    "$snakemake" --snakefile "$root/examples/Snakefile" --directory "$out" --cores "$(env -u OMP_NUM_THREADS nproc)" --nolock --rerun-triggers mtime \
        --rerun-incomplete --keep-going --quiet rules host reason --configfile "$out/.paths.json" --config "jobs=$jobs" "device=$device" "size=$size" "$@" -- "$target"
}
jobs=${4:-1} device=${5:-cpu} status=0
make_or_list() { run "$1" || { status=$?; run "$1" partial=1; }; }
# The points of the grids are chosen before the final runs are known; a second call keeps what was chosen.
make_or_list tuned.json
make_or_list study
cat "$out/page.md"
exit $status
