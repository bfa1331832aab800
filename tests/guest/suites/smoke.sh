# The shortest test of a Linux guest with served devices: over NVMe/TCP with one path and with two, on its
# PCIe bus by vfio-user, and by vhost-user; and a short script of bios through the kernel and through the
# layer.
# shellcheck shell=bash

before() {
    local library zones=zones=128,zone_size=8M,lba=4096,max_open=8,memory=true
    for library in packages qemu paths lockstep; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    use_new_qemu
    share_memory
    serve_twice small "null:$zones,zone_capacity=6M,max_active=16"
    add_drive drive "null:$zones,zone_capacity=6M,max_active=16" --io-queues 2
    add_drive timed zns-1t:zones=16,memory=true
    add_disk "${zoned_disk:?}" 0x10 "" smr "null:$zones,conventional=16"
    add_lockstep lockstep 0x11
}

after() {
    check_after "lockstep: the layer does what the kernel does" same lockstep 1 10
}

# Reads go on while one path is inaccessible, then the other.
paths_change() {
    local port
    for port in "$(port_of small)" "$(other_of small)"; do
        set_ana small "$port" inaccessible
        write_and_read "$(disk_of small)"
        set_ana small "$port" optimized
    done
}

over_tcp() {
    local disk
    check "NVMe/TCP: attach" attach small
    disk=$(disk_of small)
    check "NVMe/TCP: zones as served" zones_as_served "$disk" 128 16384 8 16
    check "NVMe/TCP: data are read back, a misplaced write fails" write_and_read "$disk"
    check "NVMe/TCP: zone actions" zone_actions "$disk"
    check "NVMe/TCP: fio, with verification" fio_verify "$disk" 24m
    check "NVMe/TCP: btrfs: files after a remount" btrfs_files "$disk"
    check "NVMe/TCP: detach" detach small
    check "NVMe/TCP: attach with digests" attach small --hdr-digest --data-digest
    check "NVMe/TCP: data are read back, with digests" write_and_read "$(disk_of small)"
    check "NVMe/TCP: detach" detach small
    check "two paths: attach" attach_both small
    check "two paths: each is inaccessible in turn" paths_change
    check "two paths: detach" detach small
}

# over_vfio_user DISK
over_vfio_user() {
    local controller
    controller=$(controller_of drive)
    check "vfio-user: zones as served" zones_as_served "$1" 128 16384 8 16
    check "vfio-user: data are read back, a misplaced write fails" write_and_read "$1"
    check "vfio-user: fio, with verification" fio_verify "$1" 8m
    check "vfio-user: fio on a model, with its latencies" fio_verify "$(disk_of timed)" 4m
    check "vfio-user: the controller is reset" reset_controller "${controller##*/}"
    check "vfio-user: data are read back after it" write_and_read "$1"
}

# over_vhost_user DISK: sixteen conventional zones, then sequential ones.
over_vhost_user() {
    check "vhost-user: zones as served" zones_as_served "$1" 128 16384 8 0 16
    check "vhost-user: data are read back, a misplaced write fails" write_and_read "$1" 16
    check "vhost-user: zone actions" zone_actions "$1" 16
    check "vhost-user: fio, with verification" fio_verify "$1" 8m --offset=16z
}

guest() {
    local library
    for library in nvme paths virtio zoned filesystems lockstep; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    modprobe nvme
    check "the drivers find the drives" until_true 60 disk_of timed
    check "the driver finds the SMR disk" until_true 60 virtio_disk_of smr
    over_tcp
    over_vfio_user "$(disk_of drive)"
    over_vhost_user "$(virtio_disk_of smr)"
    check "lockstep: bios submitted" lockstep lockstep "$(virtio_disk_of lockstep)" 1 10
}
