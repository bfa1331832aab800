# Tests with nvme-cli on a ZNS namespace of `serve` in the guest. Sourced by suites.
# shellcheck shell=bash

# of COMMAND... FILTER: the command's JSON output through a jq filter, the last argument.
of() {
    "${@:1:$#-1}" --output-format=json | jq --raw-output "${@: -1}"
}

# lists NAME DISK: nvme-cli lists it.
lists() {
    equal path "$(of nvme list-subsys ".[].Subsystems[] | select(.NQN == \"$(nqn_of "$1")\") |
        .Paths[] | \"\\(.Transport) \\(.State)\"")" "tcp live"
    equal model "$(of nvme list ".Devices[] | select(.DevicePath == \"$2\") | .ModelNumber")" \
        "Zonal zns"
    equal namespaces "$(of nvme list-ns "$2" '.nsid_list[].nsid')" 1
}

# identify DISK ZONES BLOCKS OPEN ACTIVE
identify() {
    equal nsze "$(of nvme id-ns "$1" .nsze)" "$(($2 * $3))"
    equal "block size" "$(of nvme id-ns "$1" '.lbafs[0].ds')" 12
    equal "zone size" "$(of nvme zns id-ns "$1" '.lbafe[0].zsze')" "$3"
    equal mor "$(of nvme zns id-ns "$1" .mor)" "$(($4 - 1))"
    equal mar "$(of nvme zns id-ns "$1" .mar)" "$(($5 - 1))"
    equal zasl "$(of nvme zns id-ctrl "$1" .zasl)" 8
    equal mdts "$(of nvme id-ctrl "$1" .mdts)" 8
    nvme ns-descs "$1" | grep -E 'csi *: 0x2'
    equal "command sets" "$(nvme id-iocs "$1" | grep -c 'Combination')" 1
}

# refused COMMAND...: the controller refuses the command, which nvme-cli itself accepts.
refused() {
    local said
    said=$("$@" 2>&1) || true
    grep 'NVMe status' <<<"$said" || { echo "expected an NVMe status: $said" && return 1; }
}

# state DISK SLBA: the zone's State:WritePointer, the latter relative to the zone's start.
state() {
    of nvme zns report-zones "$1" --start-lba="$2" --descs=1 \
        ".zone_list[0] | \"\\(.state):\\(.wp - .slba)\""
}

# cli_zones DISK ZONES BLOCKS
cli_zones() {
    local disk=$1 blocks=$3
    nvme zns reset-zone "$disk" --select-all
    equal zones "$(of nvme zns report-zones "$disk" .nr_zones)" "$2"
    nvme zns open-zone "$disk" --start-lba="$blocks"
    equal opened "$(state "$disk" "$blocks")" EXP_OPENED:0
    dd if=/dev/urandom of=/tmp/data bs=4k count=4
    nvme zns zone-append "$disk" --zslba="$blocks" --data-size=16384 --data=/tmp/data |
        grep "$(printf 'LBA %x$' "$blocks")"
    nvme zns zone-append "$disk" --zslba="$blocks" --data-size=4096 --data=/tmp/data |
        grep "$(printf 'LBA %x$' "$((blocks + 4))")"
    nvme zns close-zone "$disk" --start-lba="$blocks"
    equal closed "$(state "$disk" "$blocks")" CLOSED:5
    nvme zns finish-zone "$disk" --start-lba="$blocks"
    [[ $(state "$disk" "$blocks") == FULL:* ]]
    refused nvme zns zone-append "$disk" --zslba="$blocks" --data-size=4096 --data=/tmp/data
    nvme read "$disk" --start-block="$blocks" --block-count=3 --data-size=16384 --data=/tmp/read
    cmp /tmp/data /tmp/read
    nvme zns reset-zone "$disk" --start-lba="$blocks"
    equal reset "$(state "$disk" "$blocks")" EMPTY:0
    # There is no ZRWA, and the zone is not read-only.
    refused nvme zns zrwa-flush-zone "$disk" --lba="$blocks"
    refused nvme zns offline-zone "$disk" --start-lba=0
}

# cli_commands DISK: the I/O commands that file systems do not send.
cli_commands() {
    local disk=$1
    nvme zns reset-zone "$disk" --select-all
    dd if=/dev/urandom of=/tmp/data bs=4k count=4
    nvme write "$disk" --start-block=0 --block-count=3 --data-size=16384 --data=/tmp/data
    nvme compare "$disk" --start-block=0 --block-count=3 --data-size=16384 --data=/tmp/data
    dd if=/dev/urandom of=/tmp/other bs=4k count=4
    refused nvme compare "$disk" --start-block=0 --block-count=3 --data-size=16384 --data=/tmp/other
    nvme verify "$disk" --start-block=0 --block-count=3
    nvme write-zeroes "$disk" --start-block=4 --block-count=3
    equal "after Write Zeroes" "$(state "$disk" 0)" IMP_OPENED:8
    nvme dsm "$disk" --ad --slbs=0 --blocks=4
    nvme flush "$disk"
}

# cli_logs DISK CONTROLLER: log pages and features.
cli_logs() {
    local disk=$1 written
    written=$(of nvme smart-log "$disk" .host_write_commands)
    nvme zns reset-zone "$disk" --select-all
    dd if=/dev/zero of="$disk" bs=4k count=10 oflag=direct
    ((written + 10 <= $(of nvme smart-log "$disk" .host_write_commands)))
    nvme error-log "$disk"
    nvme fw-log "$disk"
    nvme effects-log "$2" | grep 'Zone Append'
    nvme supported-log-pages "$disk" | grep 'LID 0xbf'
    nvme changed-ns-list-log "$disk"
    nvme zns changed-zone-list "$disk"
    nvme get-feature "$disk" --feature-id=7 --human-readable | grep 'NSQA): 2'
    nvme get-feature "$disk" --feature-id=6 --human-readable | grep ': Enabled'
    nvme set-feature "$2" --feature-id=0xb --value=0
    nvme get-feature "$disk" --feature-id=0xb | grep -E 'value: ?(0x)?0*$'
    refused nvme get-feature "$disk" --feature-id=0x1f
    nvme show-regs "$2" | grep -E 'cc *: 460061|cc *: 0x460061'
}
