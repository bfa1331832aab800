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
