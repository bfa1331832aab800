# Disks of the guest that keep their data in its memory. Sourced by suites.
# shellcheck shell=bash

# null_blk NAME ATTRIBUTE=VALUE...: a disk /dev/NAME.
null_blk() {
    local place=/sys/kernel/config/nullb/$1 setting
    shift
    mkdir "$place"
    for setting in memory_backed=1 blocksize=4096 size=256 "$@" power=1; do
        echo "${setting#*=}" >"$place/${setting%%=*}"
    done
    until_true 10 test -b "/dev/${place##*/}"
}

# One with zones, one without.
null_blks() {
    modprobe null_blk nr_devices=0
    null_blk zoned0 zoned=1 zone_size=4 zone_capacity=3 zone_max_open=8 zone_max_active=12
    null_blk plain0
}
