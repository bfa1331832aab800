# Block devices of the guest as devices of zonal, which runs in the guest: null_blk, with zones and
# without.
# shellcheck shell=bash

before() {
    cp "${zonal:?}" "${job:?}/zonal"
}

in_use() {
    mkfs.ext4 -q /dev/plain0
    mkdir -p /mnt/plain
    mount /dev/plain0 /mnt/plain
    refused "it is in use: mounted on /mnt/plain" run --device /dev/plain0 --name=a --rw=read \
        --bs=4k --size=1m
    refused "it is in use: mounted on /mnt/plain" run --allow-dev --filename=/dev/plain0 --name=a \
        --rw=read --bs=4k --size=1m
    umount /mnt/plain
    refused "expected a block device" zone report /dev/null
    refused "expected --allow-dev beside it" run --name=a --filename=/dev/plain0 --rw=read --bs=4k --size=1m
}

runs() {
    /job/zonal run --device "$1" --name=seq --rw=write --bs=64k --iodepth=16 --zonemode=zbd --size=24m
    equal "full zones" "$(blkzone report "$1" | grep -c '(fu)')" 6
    same_zones "$1" "$1"
    /job/zonal run --device "$1" --scheduler mq-deadline --name=two --rw=write --bs=8k --iodepth=8 \
        --numjobs=2 --zonemode=zbd --size=32m --offset_increment=32m --io_size=4m
    same_zones "$1" "$1"
    /job/zonal run --device /dev/plain0 --name=plain --rw=randrw --bs=4k --iodepth=32 --numjobs=2 \
        --size=64m --io_size=8m --fsync=64
}

# Data written through zonal are on the disk after zonal exits.
data_stay() {
    blkzone reset "$1"
    serve_ublk 0 "$1"
    zones_as_served /dev/ublkb0 64 8192 8 12
    fio_verify /dev/ublkb0 24m
    limits_hold /dev/ublkb0
    write_and_read /dev/ublkb0
    stop_ublk 0
    dd if="$1" of=/tmp/read bs=128k count=8 iflag=direct
    cmp /tmp/data /tmp/read
    serve_ublk 0 "$1"
    same_zones_as "$1" /dev/ublkb0
    stop_ublk 0
}

limits_hold() {
    blkzone reset "$1"
    blkzone open --offset 0 --length $((8 * 8192)) "$1"
    fails dd if=/dev/zero of="$1" bs=4k count=1 seek=$((8 * 1024)) oflag=direct 2>/tmp/failed
    grep "Too many references" /tmp/failed
}

same_zones_as() {
    blkzone report "$1" >/tmp/one
    blkzone report "$2" >/tmp/other
    same_reports /tmp/one /tmp/other
}

# The server is killed twice during writes, and every block holds what was written last.
killed_while_written() {
    local writer
    serve_ublk 1 /dev/plain0 --recover
    fio --name=writer --filename=/dev/ublkb1 --allow_file_create=0 --direct=1 --ioengine=libaio \
        --iodepth=16 --bs=4k --rw=randwrite --size=64M --verify=crc32c --rate_iops=600 \
        >/tmp/writer 2>&1 &
    writer=$!
    for _ in 1 2; do
        sleep 6
        kill_ublk 1
        sleep 1
        serve_ublk 1 /dev/plain0 --recover
    done
    kill -0 "$writer"
    wait "$writer"
    cat /tmp/writer
    grep 'err= 0' /tmp/writer
    stop_ublk 1
}

guest() {
    # shellcheck source=tests/guest/lib/null_blk.sh
    source /job/lib/null_blk.sh
    # shellcheck source=tests/guest/lib/zoned.sh
    source /job/lib/zoned.sh
    # shellcheck source=tests/guest/lib/ublk.sh
    source /job/lib/ublk.sh
    check "null_blk" null_blks
    check "reports and zone actions" reports_and_actions /dev/zoned0 /dev/zoned0 64
    check "devices in use, and files that are not block devices" in_use
    check "jobs" runs /dev/zoned0
    modprobe ublk_drv
    check "data written through zonal stay" data_stay /dev/zoned0
    check "killed during writes" killed_while_written
}
