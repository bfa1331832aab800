# A device of zonal as a block device of the guest's own, through its ublk driver: `zonal serve`
# runs in the guest.
# shellcheck shell=bash

before() {
    cp "${zonal:?}" "${job:?}/zonal"
}

# write_fails WORDS OPTION...: a write fails with this message.
write_fails() {
    local words=$1
    shift
    fails dd if=/dev/zero bs=4k count=1 oflag=direct "$@" 2>/tmp/failed
    grep "$words" /tmp/failed
}

attributes() {
    equal "queues" "$(find /sys/block/ublkb0/mq -mindepth 1 -maxdepth 1 | wc -l)" "$(nproc)"
    equal "zone_append_max_bytes" "$(attribute "$1" zone_append_max_bytes)" 1048576
    equal "logical_block_size" "$(attribute "$1" logical_block_size)" 4096
    equal "write_cache" "$(attribute "$1" write_cache)" "write back"
    equal "fua" "$(attribute "$1" fua)" 1
    equal "capacity" "$(zone "$1" 0 cap)" 0x001800
}

# Too many open zones: ETOOMANYREFS; too many active zones: EOVERFLOW.
limits_have_their_errors() {
    blkzone reset "$1"
    blkzone open --offset 0 --length $((8 * 8192)) "$1"
    write_fails "Too many references" of="$1" seek=$((8 * 1024))
    blkzone reset "$1"
    for number in $(seq 0 11); do
        dd if=/dev/zero of="$1" bs=4k count=1 seek=$((number * 1024)) oflag=direct
        blkzone close --offset $((number * 8192)) --count 1 "$1"
    done
    write_fails "Value too large" of="$1" seek=$((12 * 1024))
    blkzone reset "$1"
    dd if=/dev/zero of="$1" bs=4k count=1 seek=$((12 * 1024)) oflag=direct
}

fio_jobs() {
    blkzone reset "$1"
    fio --name=zones --filename="$1" --direct=1 --zonemode=zbd --ioengine=libaio --iodepth=32 \
        --rw=randwrite --bs=4k --numjobs=2 --size=64M --offset_increment=64M --io_size=8M \
        --max_open_zones=8 --job_max_open_zones=4 --verify=crc32c --group_reporting
    fio --name=reads --filename="$1" --direct=1 --ioengine=io_uring --iodepth=64 --rw=randread \
        --bs=4k --numjobs=2 --size=64M --io_size=8M --group_reporting
}

flushes() {
    blkzone reset "$1"
    dd if=/dev/zero of="$1" bs=64k count=16 oflag=direct conv=fsync
    fio --name=sync --filename="$1" --direct=1 --sync=1 --zonemode=zbd --rw=write --bs=4k \
        --size=4M --io_size=1M --offset=4M
}

# A regular file system; write zeroes and discards.
conventional() {
    serve_ublk 3 null:zoned=false,size=256M,lba=4096,memory=true --ublk-queues 1 --ublk-depth 4
    equal "zoned" "$(attribute /dev/ublkb3 zoned)" none
    mkfs.ext4 -q /dev/ublkb3
    files_stay ext4 /dev/ublkb3
    dd if=/dev/urandom of=/dev/ublkb3 bs=1M count=4 oflag=direct
    blkdiscard /dev/ublkb3
    dd if=/dev/urandom of=/dev/ublkb3 bs=1M count=4 oflag=direct
    blkdiscard --zeroout --length 4M /dev/ublkb3
    cmp --bytes 4194304 /dev/ublkb3 /dev/zero
    fio --name=verify --filename=/dev/ublkb3 --direct=1 --ioengine=libaio --iodepth=32 \
        --rw=randwrite --bs=4k --size=16M --verify=crc32c
    stop_ublk 3
}

# More zones than fit in one report, on a model of a disk.
large_disk() {
    serve_ublk 4 smr-20t:memory=true --ublk-depth 4096
    equal "rotational" "$(attribute /dev/ublkb4 rotational)" 1
    blkzone report /dev/ublkb4 >/tmp/zones
    equal "zones" "$(wc -l </tmp/zones)" "$(attribute /dev/ublkb4 nr_zones)"
    equal "zone after zone" "$(sed 's/^ *start: \(0x[0-9a-f]*\).*/\1/' /tmp/zones | sort -u | wc -l)" \
        "$(wc -l </tmp/zones)"
    tail -n 1 /tmp/zones
    local last=$((($(attribute /dev/ublkb4 nr_zones) - 1) * 256))
    dd if=/dev/urandom of=/tmp/data bs=1M count=2
    dd if=/tmp/data of=/dev/ublkb4 bs=1M seek="$last" oflag=direct
    dd if=/dev/ublkb4 of=/tmp/read bs=1M skip="$last" count=2 iflag=direct
    cmp /tmp/data /tmp/read
    stop_ublk 4
}

with_conventional_zones() {
    serve_ublk 5 null:zones=64,conventional=4,zone_size=16M,lba=4096,max_open=14,memory=true
    blkzone report /dev/ublkb5 >/tmp/zones
    equal "conventional zones" "$(grep -c CONVENTIONAL /tmp/zones)" 4
    dd if=/dev/zero of=/dev/ublkb5 bs=4k count=1 seek=9 oflag=direct
    write_fails "Input/output" of=/dev/ublkb5 seek=$((4 * 4096 + 9))
    serve_ublk 6 null:zoned=false,size=256M,lba=4096,memory=true
    f2fs_files /dev/ublkb5 /dev/ublkb6
    stop_ublk 5
    stop_ublk 6
}

# The file system's data are zone appends.
btrfs_appends() {
    serve_ublk 7 null:zones=128,zone_size=8M,zone_capacity=6M,lba=4096,max_open=8,max_active=16,memory=true
    btrfs_files /dev/ublkb7
    stop_ublk 7
}

zonefs_on_ublk() {
    serve_ublk 8 null:zones=32,zone_size=8M,lba=4096,max_open=8,memory=true
    zonefs_files /dev/ublkb8
    stop_ublk 8
}

stop_with_readers() {
    serve_ublk 1 null:zones=16,zone_size=8M,lba=4096,memory=true
    stopped_under 1 1000 --iodepth=16 --rw=randread --bs=4k
}

# Without --recover the device disappears with its server, and its number can be reused.
killed() {
    serve_ublk 1 null:zones=16,zone_size=8M,lba=4096,memory=true
    kill_ublk 1
    until_true 10 fails test -e /dev/ublkb1
    serve_ublk 1 null:zones=16,zone_size=8M,lba=4096,memory=true
    write_and_read /dev/ublkb1
    refused "is served by process" serve null:zones=16 --ublk=1
    stop_ublk 1
}

# With --recover, readers see no error.
recovery() {
    local device=null:zones=16,zone_size=8M,zone_capacity=6M,lba=4096,max_open=4,memory=true readers
    serve_ublk 2 "$device" --recover
    blkzone reset /dev/ublkb2
    dd if=/dev/zero of=/dev/ublkb2 bs=256k count=4 oflag=direct
    fio --name=readers --filename=/dev/ublkb2 --allow_file_create=0 --direct=1 --ioengine=libaio \
        --iodepth=16 --numjobs=2 --rw=randread --bs=4k --size=64M --time_based --runtime=600 \
        --group_reporting >/tmp/readers &
    readers=$!
    until_true 60 read_more /dev/ublkb2 1000
    kill_ublk 2
    until_true 20 waits_for_server 2
    test -b /dev/ublkb2
    refused "it has 262144 sectors" serve null:zones=8,zone_size=8M,lba=4096 --ublk=2 --recover
    serve_ublk 2 "$device" --recover
    grep "continues" /out/ublk2.log
    kill -0 "$readers"
    # And again.
    kill_ublk 2
    serve_ublk 2 "$device" --recover
    kill -INT "$readers"
    wait "$readers" || true
    cat /tmp/readers
    grep 'err= 0' /tmp/readers
    # The data were in memory and are lost.
    equal "empty zones" "$(blkzone report /dev/ublkb2 | grep -c '(em)')" 16
    write_and_read /dev/ublkb2
    stop_ublk 2
}

# waits_for_server ID
waits_for_server() {
    refused "ublk device $1 waits for another server" serve null:zones=16 "--ublk=$1"
}

# The server of an image is killed while three writers fill its zones; flushed data stay.
image_killed() {
    local image=/var/tmp/killed.img disk=/dev/ublkb9 writers=() noted=0 writer
    mkdir -p /var/tmp
    /job/zonal image create "$image" --profile null:zones=45,zone_size=1M,lba=4096,max_open=4
    dd if=/dev/urandom of=/tmp/reference bs=4k count=$((256 + 45))
    : >/tmp/flushed
    touch /tmp/writing
    serve_ublk 9 "$image" --recover
    for writer in 0 15 30; do
        fill_zones "$disk" $(seq "$writer" $((writer + 14))) &
        writers+=($!)
    done
    for _ in 1 2 3 4; do
        until_true 60 flushed_more "$noted"
        sleep "0.$((RANDOM % 10))"
        kill_ublk 9
        until_true 20 waits_for_server 9
        noted=$(wc -l </tmp/flushed)
        /job/zonal image check "$image"
        serve_ublk 9 "$image" --recover
    done
    until_true 60 flushed_more "$noted"
    rm /tmp/writing
    wait "${writers[@]}"
    stop_ublk 9
    /job/zonal image check "$image"
    serve_ublk 9 "$image"
    zones_hold "$disk"
    stop_ublk 9
    rm "$image"
}

# fill_zones DISK ZONE...: one after the other, until /tmp/writing is removed. Block N of a zone is
# block N + ZONE of the reference. After each flush a line `zone blocks` is added to /tmp/flushed. A
# failed write may have been executed, so the next one could be misplaced: the zone is given up.
fill_zones() {
    local disk=$1 zone at blocks flush
    for zone in "${@:2}"; do
        at=0
        while ((at < 256)) && [[ -e /tmp/writing ]]; do
            blocks=$((1 + RANDOM % 8))
            ((blocks <= 256 - at)) || blocks=$((256 - at))
            flush=()
            ((RANDOM % 4)) || flush=(conv=fsync)
            dd if=/tmp/reference of="$disk" bs=$((4096 * blocks)) count=1 iflag=skip_bytes \
                skip=$((4096 * (zone + at))) oflag=direct,seek_bytes \
                seek=$((4096 * (256 * zone + at))) "${flush[@]}" || break
            at=$((at + blocks))
            ((${#flush[@]} == 0)) || echo "$zone $at" >>/tmp/flushed
            # So that a fast machine does not finish before the last kill.
            sleep 0.02
        done
    done
}

flushed_more() {
    (($(wc -l </tmp/flushed) > $1 + 3))
}

# zones_hold DISK: all flushed data, and nothing that was not written.
zones_hold() {
    local disk=$1 number blocks flushed
    for number in $(seq 0 44); do
        blocks=256
        [[ $(zone "$disk" "$number" zcond) == "14(fu)" ]] ||
            blocks=$(($(zone "$disk" "$number" wptr) / 8))
        flushed=$(sed -n "s/^$number //p" /tmp/flushed | tail -n 1)
        ((blocks >= ${flushed:-0}))
        ((blocks > 0)) || continue
        cmp <(dd if="$disk" bs=4k skip=$((256 * number)) count="$blocks" iflag=direct) \
            <(dd if=/tmp/reference bs=4k skip="$number" count="$blocks")
    done
}

# A disk that is formatted without one of four heads is smaller, where the driver can be told (Linux 6.16).
loses_a_head() {
    local before share=4
    serve_ublk 9 hdd:recording=smr,zones=16,zone_size=4M,heads=4,max_open=8 --ctl /tmp/head.ctl
    before=$(blockdev --getsize64 /dev/ublkb9)
    equal "zones left" "$(/job/zonal ctl /tmp/head.ctl depopulate 1 format)" 12
    [[ $(uname -r) == 6.* ]] || share=3
    equal "size" "$(blockdev --getsize64 /dev/ublkb9)" "$((before * share / 4))"
    dd if=/dev/zero of=/dev/ublkb9 bs=4k count=1 oflag=direct,seek_bytes seek=$((11 * 4194304))
    fails dd if=/dev/zero of=/dev/ublkb9 bs=4k count=1 oflag=direct,seek_bytes seek=$((12 * 4194304))
    stop_ublk 9
}

guest() {
    # shellcheck source=tests/guest/lib/filesystems.sh
    source /job/lib/filesystems.sh
    # shellcheck source=tests/guest/lib/zoned.sh
    source /job/lib/zoned.sh
    # shellcheck source=tests/guest/lib/ublk.sh
    source /job/lib/ublk.sh
    local disk=/dev/ublkb0
    check "without the driver: how to load it" refused "modprobe ublk_drv" serve null:zones=16 --ublk
    if ! modprobe ublk_drv; then
        skip "a ublk device" "Linux $(uname -r) has no driver"
        return
    fi
    check "serve" serve_ublk 0 \
        null:zones=64,zone_size=4M,zone_capacity=3M,lba=4096,max_open=8,max_active=12,memory=true
    check "zones as served" zones_as_served "$disk" 64 8192 8 12
    check "attributes of the queue" attributes "$disk"
    check "data are read back, a misplaced write fails" write_and_read "$disk"
    check "zone actions" zone_actions "$disk"
    check "limit of open zones" open_limit "$disk"
    check "errors of the limits" limits_have_their_errors "$disk"
    check "fio, with verification" fio_verify "$disk" 24m
    check "fio: several jobs, deep queues" fio_jobs "$disk"
    check "flushes and FUA writes" flushes "$disk"
    check "a clean stop leaves nothing behind" stop_ublk 0
    check "a device without zones" conventional
    check "a large disk" large_disk
    check "conventional zones; f2fs: files after a remount" with_conventional_zones
    check "btrfs: files after a remount" btrfs_appends
    check "zonefs" zonefs_on_ublk
    check "a disk loses a head" loses_a_head
    check "stopped with readers" stop_with_readers
    check "killed: the device disappears, and can be served again" killed
    check "killed with --recover: another server takes over" recovery
    check "killed while an image is written: flushed data stay" image_killed
}
