#!/usr/bin/env bash
# The pre-trainings that the sweeps compare: VECO, without CS-MLM, and the masked LM alone, each from the same masked LM; and random values.
#   bash examples/veco/pretrain_arms.sh OUT [fairseq-train options]    OUT was made by prepare.sh; run again to continue
# About equal computation, by the layers that a batch passes: an update of VECO costs about 1.9 of those without CS-MLM and 2.8 of the masked
# LM's, which get so many more. A finished one is OUT/pretrained-NAME/done.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# arm NAME UPDATES OPTIONS...
arm() {
    local name=pretrained-$1 updates=$2
    shift 2
    [ ! -e "$out/$name/done" ] || return 0
    bash examples/veco/pretrain.sh "$out" "$name" "$updates" "$@" && touch "$out/$name/done"
}

arm veco 600 --freeze-backbone-updates 50 "$@"
arm mlm-tlm 1150 --objectives is,tlm "$@"
arm mlm 1700 --objectives is "$@"
INIT=none arm random 1 --objectives is --lr 1e-9 "$@"  # random values, for probe_arms.sh
