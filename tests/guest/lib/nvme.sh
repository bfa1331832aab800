# Namespaces of `serve` in the guest. Sourced by suites.
# shellcheck shell=bash

address=10.0.2.2
host_names=(--hostnqn nqn.2026-11.org.example:linux --hostid 01234567-89ab-cdef-0123-456789abcdef)

nqn_of() {
    echo "nqn.2026-11.org.example:$1"
}

port_of() {
    local port=${1}_port
    echo "${!port}"
}

# Kernels before zone write plugging (6.10) keep writes to a zone in order in the scheduler
# mq-deadline only, and their multipath layer loses the sectors of zone appends.
is_old() {
    [[ $(uname -r) == 6.1.* ]]
}

load_nvme() {
    if is_old; then
        modprobe nvme-core multipath=N
        modprobe mq-deadline
    fi
    modprobe nvme-tcp
    # The kernel requests the digests' checksum by name, not as a dependency; newer ones have it built in.
    modprobe --quiet crc32c_generic || true
}

# discover NAME: the discovery log has the subsystem.
discover() {
    load_nvme
    equal discovered "$(of nvme discover -t tcp -a "$address" -s "$(port_of "$1")" \
        "${host_names[@]}" '.records[] | "\(.trtype) \(.subtype) \(.trsvcid) \(.subnqn)"')" \
        "tcp nvme subsystem $(port_of "$1") $(nqn_of "$1")"
}

# attach NAME OPTION...: connects to it and waits for its namespace.
attach() {
    local name=$1
    shift
    load_nvme
    nvme connect -t tcp -a "$address" -s "$(port_of "$name")" -n "$(nqn_of "$name")" \
        "${host_names[@]}" -i 2 "$@" &&
        until_true 20 disk_of "$name" || return 1
    if is_old; then
        echo mq-deadline >"/sys/block/$(basename "$(disk_of "$name")")/queue/scheduler"
    fi
}

detach() {
    nvme disconnect -n "$(nqn_of "$1")"
    fails disk_of "$1"
}

# disk_of NAME [NSID]: its block device, of namespace 1 unless another is given.
disk_of() {
    local disk
    for disk in /sys/block/nvme*; do
        [[ $disk =~ /nvme[0-9]+n[0-9]+$ && -b /dev/${disk##*/} ]] || continue
        [[ $(cat "$disk/device/subsysnqn") == "$(nqn_of "$1")" ]] || continue
        [[ $(cat "$disk/nsid") == "${2-1}" ]] || continue
        echo "/dev/${disk##*/}"
        return
    done
    return 1
}

# controller_of NAME: its controller.
controller_of() {
    grep --files-with-matches --line-regexp --fixed-strings "$(nqn_of "$1")" \
        /sys/class/nvme/*/subsysnqn | sed 's|.*/\(nvme[0-9]*\)/.*|/dev/\1|'
}

# is_in_state CONTROLLER STATE
is_in_state() {
    [[ $(cat "/sys/class/nvme/$1/state") == "$2" ]]
}

# reset_controller CONTROLLER: the host resets it.
reset_controller() {
    echo 1 >"/sys/class/nvme/$1/reset_controller"
    until_true 30 is_in_state "$1" live
}
