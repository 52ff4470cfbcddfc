#!/usr/bin/env bash
# Serves a model over HTTP, with a page for browsers. See docs/serving.md.
#   bash examples/serve.sh MODEL
# MODEL is a folder that `fairseq-plugins export` wrote, which is served as it is; or a checkpoint, the folder of a run, or what
# `make translator` made: then the export lies beside the checkpoint, and is made when there is none of the same checkpoint.
#   PORT        to listen at, on this machine only (default 5000)
#   PRECISION   float32 (default) or int8
#   SYSTEM      of what `make translator` made: sga_lora or at (default: the better)
set -euo pipefail
[ $# -eq 1 ] || { sed -n 2,8p "$0" >&2; exit 2; }
PYTHON=${PYTHON:-python}
PORT=${PORT:-5000}
PRECISION=${PRECISION:-float32}
export PYTHONWARNINGS=ignore
case "$PRECISION" in float32) int8=() ;; int8) int8=(--int8) ;; *) echo "serve: PRECISION=$PRECISION; valid: float32, int8" >&2; exit 2 ;; esac

model=$1
case $model in -*) model=./$model ;; esac
if [ ! -f "$model/model.json" ]; then
    checkpoint=$("$PYTHON" - "$model" "${SYSTEM:-}" <<'END'
import sys
from fairseq_plugins.model_files import find_checkpoint
try:
    print(find_checkpoint(sys.argv[1], sys.argv[2] or None))
except ValueError as error:
    sys.exit(f"serve: {error}")
END
    )
    folder=$(dirname "$checkpoint")
    model=$folder/onnx-$PRECISION-$(sha256sum <"$checkpoint" | cut -c 1-12)
    data=()
    [ ! -d "$folder/bin" ] || data=(--data "$folder/bin")
    if [ ! -f "$model/model.json" ]; then
        echo "exporting $checkpoint to $model" >&2
        "$PYTHON" -m fairseq_plugins export --format onnx "${int8[@]}" "${data[@]}" "$checkpoint" "$model"
    fi
fi
exec "$PYTHON" -m fairseq_plugins_runtime serve "$model" --port "$PORT"
