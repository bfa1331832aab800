# libzbd's program `zbd` on each export: what it reports and does is what blkzone says.
# shellcheck shell=bash

before() {
    local library zones=zones=32,zone_size=4M,lba=4096,max_open=8,memory=true
    for library in packages programs qemu; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    fetch_programs libzbd trixie zbd-utils libzbd2t64
    use_new_qemu
    share_memory
    serve tcp "null:$zones"
    add_drive drive "null:$zones" --io-queues 2
    add_disk "${zoned_disk:?}" 0x10 "" smr "null:$zones,conventional=4"
}

zbd() {
    LD_LIBRARY_PATH=/job/libzbd/usr/lib/x86_64-linux-gnu /job/libzbd/usr/bin/zbd "$@"
}

# reported DISK SEQUENTIAL: by zbd, all zones, of which that many are sequential and empty.
reported() {
    blkzone reset "$1"
    zbd report "$1" | tee /tmp/zones
    equal zones "$(grep -c '^Zone [0-9]' /tmp/zones)" 32
    equal "sequential zones" "$(grep -c '^Zone [0-9]*: swr' /tmp/zones)" "$2"
    equal "empty zones" "$(grep -c ' em,' /tmp/zones)" "$2"
}

# managed DISK: by zbd, zone 5. Its offsets and lengths are in bytes.
managed() {
    local disk=$1 at=$((5 * 4194304)) range
    range=(-ofst "$at" -len 4194304)
    blkzone reset "$disk"
    zbd open "${range[@]}" "$disk"
    equal "after open" "$(zone "$disk" 5 zcond)" "3(oe)"
    dd if=/dev/zero of="$disk" bs=4k count=1 oflag=direct,seek_bytes seek="$at"
    zbd close "${range[@]}" "$disk"
    equal "after close" "$(zone "$disk" 5 zcond)" "4(cl)"
    zbd finish "${range[@]}" "$disk"
    equal "after finish" "$(zone "$disk" 5 zcond)" "14(fu)"
    equal "others" "$(blkzone report "$disk" | grep -c '(fu)')" 1
    zbd reset "${range[@]}" "$disk"
    equal "after reset" "$(zone "$disk" 5 zcond)" "1(em)"
}

# on NAME DISK SEQUENTIAL
on() {
    check "$1: zbd report" reported "$2" "$3"
    check "$1: zbd open, close, finish, reset" managed "$2"
}

guest() {
    local library
    for library in nvme virtio zoned; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    modprobe nvme
    check "the drivers find the drives" until_true 60 disk_of drive
    check "the driver finds the SMR disk" until_true 60 virtio_disk_of smr
    check "NVMe/TCP: attach" attach tcp
    on NVMe/TCP "$(disk_of tcp)" 32
    on vfio-user "$(disk_of drive)" 32
    on vhost-user "$(virtio_disk_of smr)" 28
    check "NVMe/TCP: detach" detach tcp
}
