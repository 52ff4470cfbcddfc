#!/usr/bin/env bash
# Runs a command beside a Slurm cluster of its own: a controller and two nodes on this machine, each a network namespace with an address
# and a host name. As root: bash tests/cluster/with_slurm.sh COMMAND [ARGUMENT...]     (Debian and Ubuntu: install slurm-wlm munge)
# $TMPDIR is then a folder in memory. All of it lies in namespaces that end with this script, killed or not.
set -euo pipefail

if [ "${1:-}" != --inside ]; then
    [ $# -ge 1 ] || { sed -n 3p "$0" >&2; exit 2; }
    [ "$(id -u)" = 0 ] || { echo "with_slurm: namespaces and slurmd need root" >&2; exit 2; }
    for program in slurmctld slurmd munged ip unshare; do
        command -v $program >/dev/null || { echo "with_slurm: no $program (Debian and Ubuntu: install slurm-wlm munge iproute2)" >&2; exit 2; }
    done
    CLUSTER=$(mktemp -d)
    export CLUSTER
    trap 'rmdir "$CLUSTER"' EXIT
    setpriv --pdeathsig KILL unshare --mount --net --uts --pid --fork --mount-proc --kill-child bash "$0" --inside "$@"
    exit
fi
shift

mount -t tmpfs -o mode=755 cluster "$CLUSTER"
mkdir "$CLUSTER/etc"
mkdir -m 700 "$CLUSTER/munge" "$CLUSTER/state"
cat >"$CLUSTER/hosts" <<END
127.0.0.1 localhost
10.99.0.1 controller
10.99.0.11 node1
10.99.0.12 node2
END
cat >"$CLUSTER/etc/slurm.conf" <<END
ClusterName=test
SlurmctldHost=controller
SlurmUser=root
AuthType=auth/munge
# A job that is requeued waits for cred_expire.
AuthInfo=socket=$CLUSTER/munge/socket,cred_expire=10
CryptoType=crypto/munge
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool-%n
SlurmctldPidFile=$CLUSTER/slurmctld.pid
SlurmdPidFile=$CLUSTER/slurmd-%n.pid
SlurmctldLogFile=$CLUSTER/slurmctld.log
SlurmdLogFile=$CLUSTER/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
# No accounting database: for ten minutes the controller itself remembers jobs that have ended.
MinJobAge=600
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=node[1-2] CPUs=$(nproc)
PartitionName=work Nodes=ALL Default=YES PriorityTier=1
PartitionName=urgent Nodes=ALL PriorityTier=2
END
mount --bind "$CLUSTER/etc" /etc/slurm
mount --bind "$CLUSTER/hosts" /etc/hosts
hostname controller
export TMPDIR=$CLUSTER
ip link set lo up
ip link add cluster0 type bridge
ip addr add 10.99.0.1/24 dev cluster0
ip link set cluster0 up
dd if=/dev/urandom of="$CLUSTER/munge/key" bs=1024 count=1 status=none
chmod 400 "$CLUSTER/munge/key"
munged --force --socket="$CLUSTER/munge/socket" --key-file="$CLUSTER/munge/key" --pid-file="$CLUSTER/munge/pid" \
    --seed-file="$CLUSTER/munge/seed" --log-file="$CLUSTER/munge/log"
chmod 711 "$CLUSTER/munge"
slurmctld
for number in 1 2; do
    # The node waits for its address.
    unshare --net --uts bash -c "hostname node$number; until ip -4 addr show dev eth0 2>/dev/null | grep -q inet; do sleep 0.1; done
        exec slurmd -D" >"$CLUSTER/node$number.out" 2>&1 &
    until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
    ip link add node$number type veth peer name eth0 netns $!
    ip link set node$number master cluster0 up
    nsenter --net --target $! bash -c "ip link set lo up; ip link set eth0 up; ip addr add 10.99.0.1$number/24 dev eth0"
done
for _ in $(seq 150); do
    [ "$(sinfo --noheader --format %T --partition work 2>/dev/null)" != idle ] || { up=yes; break; }
    sleep 0.2
done
[ "${up:-}" ] || { echo "with_slurm: the nodes did not come up" >&2; sinfo >&2 || true; tail -n 20 "$CLUSTER"/*.log "$CLUSTER"/*.out "$CLUSTER"/munge/log >&2; exit 1; }
"$@"
