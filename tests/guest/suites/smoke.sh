# The shortest test of a Linux host with a served device.
# shellcheck shell=bash

before() {
    serve small \
        null:zones=128,zone_size=8M,zone_capacity=6M,lba=4096,max_open=8,max_active=16,memory=true
}

guest() {
    # shellcheck source=tests/guest/lib/nvme.sh
    source /job/lib/nvme.sh
    # shellcheck source=tests/guest/lib/filesystems.sh
    source /job/lib/filesystems.sh
    # shellcheck source=tests/guest/lib/zoned.sh
    source /job/lib/zoned.sh
    check "attach" attach small
    local disk
    disk=$(disk_of small)
    check "zones as served" zones_as_served "$disk" 128 16384 8 16
    check "data are read back, a misplaced write fails" write_and_read "$disk"
    check "zone actions" zone_actions "$disk"
    check "fio, with verification" fio_verify "$disk" 24m
    check "btrfs: files after a remount" btrfs_files "$disk"
    check "detach" detach small
    check "attach with digests" attach small --hdr-digest --data-digest
    check "data are read back, with digests" write_and_read "$(disk_of small)"
    check "detach" detach small
}
