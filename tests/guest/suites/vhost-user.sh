# Block devices of the guest by vhost-user: SMR disks, whose zones the guest sees, and a device without
# zones, whose server is killed and replaced; the guest restarts with I/O in flight.
# shellcheck shell=bash

zones=128
conventional=16

before() {
    local library
    for library in packages qemu; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    use_new_qemu
    share_memory
    let_reset
    "${zonal:?}" create "${work:?}/smr.img" \
        --profile "null:zones=$zones,conventional=$conventional,zone_size=8M,lba=4096,max_open=8"
    add_disk "${zoned_disk:?}" 0x10 "" smr "$work/smr.img"
    add_disk "$zoned_disk" 0x11 "" timed smr-20t:zones=256,conventional=8,memory=true
    # The data stay with a server of their own when the one that the guest uses is killed.
    serve store null:zoned=false,size=1G,lba=4096,memory=true
    # shellcheck disable=SC2154
    add_disk vhost-user-blk-pci,num-queues=2 0x12 ,reconnect-ms=500 plain \
        "nvme-tcp://127.0.0.1:${server_ports[store]}/nqn.2026-11.org.example:store"
}

# smr_zones DISK: as served, and as lsblk shows them.
smr_zones() {
    zones_as_served "$1" "$zones" 16384 8 0 "$conventional"
    equal "conventional zones" "$(grep -c CONVENTIONAL /tmp/zones)" "$conventional"
    equal lsblk "$(lsblk --noheadings --nodeps --output ZONED,ZONE-SZ,ZONE-NR "$1" | xargs)" \
        "host-managed 8M $zones"
    equal "block size" "$(attribute "$1" logical_block_size)" 4096
}

# Conventional zones are written in any order, and are not reset.
conventional_zones() {
    local disk=$1
    dd if=/dev/urandom of=/tmp/data bs=4k count=4
    dd if=/tmp/data of="$disk" bs=16k seek=700 oflag=direct
    dd if=/tmp/data of="$disk" bs=16k seek=3 oflag=direct
    blkzone reset "$disk"
    fails blkzone reset --count 1 "$disk"
    dd if="$disk" of=/tmp/read bs=16k skip=700 count=1 iflag=direct
    cmp /tmp/data /tmp/read
    blkdiscard --zeroout --offset "$((3 * 16384))" --length 16384 "$disk"
    cmp <(dd if="$disk" bs=16k skip=3 count=1 iflag=direct) <(head --bytes 16384 /dev/zero)
    fio --name=conventional --filename="$disk" --direct=1 --zonemode=zbd --ioengine=libaio --iodepth=8 \
        --rw=randwrite --bs=16k --size="${conventional}z" --io_size=4M --verify=crc32c
}

conventional_files() {
    mount -t zonefs "$1" /mnt/zonefs
    equal "conventional files" "$(find /mnt/zonefs/cnv -type f | wc -l)" "$((conventional - 1))"
    dd if=/tmp/data of=/mnt/zonefs/cnv/2 bs=4k seek=7 count=4 conv=notrunc,fsync
    umount /mnt/zonefs
    mount -t zonefs "$1" /mnt/zonefs
    cmp <(dd if=/mnt/zonefs/cnv/2 bs=4k skip=7 count=4) <(head --bytes 16384 /tmp/data)
}

# Metadata go to the conventional zones.
f2fs_alone() {
    modprobe f2fs
    blkzone reset "$1"
    mkfs.f2fs -f -m "$1"
    files_stay f2fs "$1"
}

xfs_files() {
    modprobe xfs
    mkfs.xfs -f "$1"
    files_stay xfs "$1"
}

# Each processor has a queue, and with `vhost-user-blk-pci` an interrupt for it.
queues() {
    local queue
    for queue in 0 1; do
        [[ -d /sys/block/${1##*/}/mq/$queue ]]
        taskset -c "$queue" dd if="$1" of=/dev/null bs=4k count=8 iflag=direct
    done
}
interrupts() {
    local device queue
    queues "$1"
    device=$(basename "$(readlink -f "/sys/block/${1##*/}/device")")
    for queue in 0 1; do
        awk -v "name=$device-req.$queue" '$NF == name { for (i = 2; i <= 3; i++) sum += $i } END { exit sum == 0 }' \
            /proc/interrupts
    done
}

plain_limits() {
    fails equal discard "$(attribute "$1" discard_max_bytes)" 0
    fails equal "write zeroes" "$(attribute "$1" write_zeroes_max_bytes)" 0
    equal zoned "$(attribute "$1" zoned)" none
}

# random_writes DISK OPTION...: writes anywhere, by both processors, and verifies.
random_writes() {
    fio --name=random --filename="$1" --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite \
        --bsrange=4k-128k --size=64M --offset_increment=64M --numjobs=2 --io_size=12M \
        --verify=crc32c --group_reporting "${@:2}"
}

# The server is killed again and again while fio writes; what it did not answer is repeated by the next.
server_is_replaced() {
    local writer
    fio --name=writer --filename="$1" --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --bs=4k \
        --size=8M --rate_iops=100 --verify=crc32c >/tmp/writer 2>&1 &
    writer=$!
    for _ in 1 2; do
        sleep 3
        ask kill plain
        ask start_at plain
    done
    kill -0 "$writer"
    wait "$writer"
    cat /tmp/writer
    grep 'err= 0' /tmp/writer
}

# Data that are to be there after the guest has restarted.
leave_data() {
    write_and_read "$1" "$conventional"
    dd if=/tmp/data of="$2" bs=64k oflag=direct
    cp /tmp/data /root/left
}
data_are_there() {
    dd if="$1" of=/tmp/read bs=128k count=8 iflag=direct,skip_bytes skip="$((conventional << 23))"
    cmp /root/left /tmp/read
    dd if="$2" of=/tmp/read bs=128k count=8 iflag=direct
    cmp /root/left /tmp/read
}

# under_way DISK OFFSET: writes until the guest ends.
under_way() {
    fio --name=under_way --filename="$1" --offset="$2" --direct=1 --ioengine=libaio --iodepth=16 \
        --rw=randwrite --bs=16k --size=32M --time_based --runtime=1000 &>/dev/null &
}

after_restart() {
    local smr plain
    check "restart: the disks are there" until_true 60 virtio_disk_of smr
    smr=$(virtio_disk_of smr)
    plain=$(virtio_disk_of plain)
    check "restart: so are the data" data_are_there "$smr" "$plain"
    check "restart: zones as served" smr_zones "$smr"
    check "restart: data are read back, a misplaced write fails" write_and_read "$smr" "$conventional"
    check "restart: fio with verification" fio_verify "$smr" 8m --offset="${conventional}z"
    check "restart: queues and interrupts" interrupts "$plain"
    check "restart: fio, anywhere" random_writes "$plain"
    check "restart: btrfs" btrfs_files "$smr"
}

guest() {
    local library smr plain timed first=$conventional
    for library in virtio zoned filesystems; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    if ((${boot:?} > 1)); then
        after_restart
        return
    fi
    check "the driver finds the disks" until_true 60 virtio_disk_of smr
    smr=$(virtio_disk_of smr)
    plain=$(virtio_disk_of plain)
    timed=$(virtio_disk_of timed)
    check "zones as served" smr_zones "$smr"
    check "a queue for each processor" queues "$smr"
    check "conventional zones" conventional_zones "$smr"
    check "data are read back, a misplaced write fails" write_and_read "$smr" "$first"
    check "zone actions" zone_actions "$smr" "$first"
    check "limit of open zones" open_limit "$smr" "$first"
    check "fio, in order, with verification" fio_verify "$smr" 24m --offset="${first}z"
    check "fio on a model, with its latencies" fio_verify "$timed" 8m --offset=8z
    check "zonefs: files after a remount" zonefs_files "$smr"
    check "zonefs: files of conventional zones" conventional_files "$smr"
    check "btrfs: files after a remount" btrfs_files "$smr"
    check "f2fs: files after a remount" f2fs_alone "$smr"
    check "no zones: limits" plain_limits "$plain"
    check "no zones: a queue and an interrupt for each processor" interrupts "$plain"
    check "no zones: fio, anywhere, with verification" random_writes "$plain"
    check "no zones: discard" discard "$plain"
    check "no zones: Write Zeroes" discard "$plain" --zeroout
    check "no zones: XFS: files after a remount" xfs_files "$plain"
    check "a server is killed under load and replaced" server_is_replaced "$plain"
    check "data stay" leave_data "$smr" "$plain"
    under_way "$smr" 0
    under_way "$plain" 64M
    sleep 3
    restart
}
