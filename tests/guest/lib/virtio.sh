# Virtio disks in the guest, which are served by vhost-user. Sourced by suites.
# shellcheck shell=bash

# virtio_disk_of NAME: the disk with this serial number.
virtio_disk_of() {
    local disk
    for disk in /sys/block/vd*; do
        [[ $(cat "$disk/serial") == "$1" ]] || continue
        echo "/dev/${disk##*/}"
        return
    done
    return 1
}
