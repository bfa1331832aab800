# NVMe namespaces of the guest as devices of zonal, by their generic nodes (/dev/ngXnY): QEMU's
# emulated drive, with and without zones.
# shellcheck shell=bash

# namespace NUMBER OPTION...: a namespace of the preceding drive; its data are lost with the guest.
namespace() {
    local number=$1 IFS=,
    shift
    truncate -s 240M "${work:?}/namespace$number"
    qemu_options+=(
        -drive "file=$work/namespace$number,format=raw,if=none,cache=unsafe,id=namespace$number"
        -device "nvme-ns,drive=namespace$number,$*"
    )
}

before() {
    cp "${zonal:?}" "${job:?}/zonal"
    local blocks=(logical_block_size=4096 physical_block_size=4096)
    # Appends of up to 2^4 pages of 4 KiB, commands of up to 2^6.
    qemu_options+=(-device "nvme,id=nvme0,serial=zonal,mdts=6,zoned.zasl=4")
    namespace 1 nsid=1 "${blocks[@]}" zoned=true zoned.zone_size=4M zoned.zone_capacity=3M \
        zoned.max_open=8 zoned.max_active=12
    namespace 2 nsid=2 "${blocks[@]}"
    # Not a power of two: Linux makes no block device of it.
    namespace 3 nsid=3 "${blocks[@]}" zoned=true zoned.zone_size=3M
    namespace 4 nsid=4 "${blocks[@]}" ms=8
    namespace 6 nsid=5 "${blocks[@]}" zoned=true zoned.zone_size=16M
    # A drive that may have several controllers, so that the kernel makes a multipath disk.
    qemu_options+=(-device "nvme-subsys,id=several" -device "nvme,id=nvme1,serial=paths,subsys=several")
    namespace 5 nsid=1 bus=nvme1 "${blocks[@]}" zoned=true zoned.zone_size=4M zoned.zone_capacity=3M
}

# called SERIAL NSID: a namespace's name after ng or nvme. The driver numbers drives and namespaces
# in the order in which it finds them.
called() {
    local place
    for place in /sys/block/nvme*; do
        # A name with a c is a path.
        [[ ${place##*/} != *c* && $(tr -d ' ' <"$place/device/serial") == "$1" ]] || continue
        [[ $(cat "$place/nsid") == "$2" ]] || continue
        echo "${place##*/nvme}"
        return
    done
    return 1
}

nodes() {
    local number
    modprobe nvme
    for number in 1 2 3 4 5; do
        until_true 60 called zonal "$number"
        until_true 60 test -c "/dev/ng$(called zonal "$number")"
    done
    until_true 60 called paths 1
    until_true 60 test -c "/dev/ng$(called paths 1)"
    until_true 60 test -b "/dev/nvme$(called zonal 1)"
    until_true 60 test -b "/dev/nvme$(called zonal 2)"
    fails test -b "/dev/nvme$(called zonal 3)"
}

# traced OPCODE COMMAND...: writes the number of NVMe commands with this opcode to /tmp/traced.
traced() {
    local opcode=$1 events=/tmp/tracing/events/nvme/nvme_setup_cmd
    shift
    mkdir -p /tmp/tracing
    mountpoint -q /tmp/tracing || mount -t tracefs tracefs /tmp/tracing
    echo 16384 >/tmp/tracing/buffer_size_kb
    echo >/tmp/tracing/trace
    echo "opcode == $opcode && qid != 0" >$events/filter
    echo 1 >$events/enable
    "$@"
    echo 0 >$events/enable
    grep -c nvme_setup_cmd: /tmp/tracing/trace >/tmp/traced || true
}

# 480 appends of 16 KiB to three zones; each block is read where it was written.
appends() {
    local number
    blkzone reset "/dev/nvme$zoned"
    for number in $(seq 0 479); do
        printf '8,0 0 %d 0.%09d 1 Q ZAS %d + 32 [a]\n' $((number + 1)) "$number" \
            $((number % 3 * 8192))
    done >/tmp/appends.txt
    traced 0x7d /job/zonal run --device "/dev/ng$zoned" --name=a --read_iolog=/tmp/appends.txt \
        --replay_no_stall=1 --iodepth=32 --verify=crc32c
    equal "appends" "$(cat /tmp/traced)" 480
    for number in 0 1 2; do
        equal "write pointer" "$(zone "/dev/nvme$zoned" "$number" wptr)" 0x001400
    done
    same_zones "/dev/ng$zoned" "/dev/nvme$zoned"
}

# Writes wait in the plug and are sent as writes, not as appends.
writes() {
    blkzone reset "/dev/nvme$zoned"
    traced 0x7d /job/zonal run --device "/dev/ng$zoned" --name=seq --rw=write --bs=64k --iodepth=16 \
        --numjobs=2 --zonemode=zbd --size=24m --offset_increment=24m --verify=crc32c
    equal "appends" "$(cat /tmp/traced)" 0
    equal "full zones" "$(blkzone report "/dev/nvme$zoned" | grep -c '(fu)')" 12
    same_zones "/dev/ng$zoned" "/dev/nvme$zoned"
    # The drive itself fails a write that is not at the write pointer.
    blkzone reset "/dev/nvme$zoned"
    fails /job/zonal run --device "/dev/ng$zoned" --zone-write off --name=out --rw=write --bs=4k \
        --offset=8k --size=12k
    equal "write pointer" "$(zone "/dev/nvme$zoned" 0 wptr)" 0x000000
}

without_zones() {
    /job/zonal run --device "/dev/ng$plain" --name=plain --rw=randrw --bs=16k --iodepth=32 \
        --numjobs=2 --size=64m --io_size=8m --fsync=64
    /job/zonal run --device "/dev/ng$plain" --name=checked --rw=randwrite --bs=16k --iodepth=16 \
        --size=16m --verify=crc32c
    refused "no zones" zone report "/dev/ng$plain"
}

# Zeroes need no data.
zeroes() {
    modprobe ublk_drv
    serve_ublk 1 "/dev/ng$plain"
    dd if=/dev/urandom of=/dev/ublkb1 bs=1M count=2 oflag=direct
    traced 0x08 blkdiscard --zeroout --length 1M /dev/ublkb1
    equal "zeroes of 256 KiB" "$(cat /tmp/traced)" 4
    cmp --bytes 1048576 /dev/ublkb1 /dev/zero
    fails cmp --bytes 1048580 /dev/ublkb1 /dev/zero
    stop_ublk 1
}

# A multipath disk has a generic node of its own, for all of its paths.
multipath() {
    equal "paths" "$(find /sys/block -name "nvme${paths%n*}c*n${paths#*n}" | wc -l)" 1
    zoned=$paths appends
    same_zones "/dev/nvme$paths" "/dev/nvme$paths"
}

# Zones of 3 MiB, which the kernel's block layer does not support.
odd_zones() {
    /job/zonal run --device "/dev/ng$odd" --name=odd --rw=write --bs=48k --iodepth=8 \
        --zonemode=zbd --size=12m --verify=crc32c
    /job/zonal zone report "/dev/ng$odd" >/tmp/odd
    equal "zones" "$(grep -c SEQ_WRITE_REQUIRED /tmp/odd)" 80
    equal "full zones" "$(grep -c '(fu)' /tmp/odd)" 4
    /job/zonal zone reset "/dev/ng$odd"
    equal "empty zones" "$(/job/zonal zone report "/dev/ng$odd" | grep -c '(em)')" 80
}

in_use() {
    mkfs.ext4 -q "/dev/nvme$plain"
    mkdir -p /mnt/plain
    mount "/dev/nvme$plain" /mnt/plain
    refused "/dev/nvme$plain is mounted" run --device "/dev/ng$plain" --name=a --rw=read --bs=4k --size=1m
    umount /mnt/plain
    refused "8 bytes of metadata" run --device "/dev/ng$metadata" --name=a --rw=read --bs=4k --size=1m
    refused "found \`ng0\`, expected" zone report /dev/ng0
    refused "No such file" zone report /dev/ng9n9
    ln -s /dev/null /dev/ng8n8
    refused "of another kind" zone report /dev/ng8n8
    refused "expected --allow-dev beside it, or --device on the command line" run --name=a --filename="/dev/ng$zoned" --rw=read --bs=4k --size=1m
}

# While zonal uses it nobody else can, and the served device has the drive's appends.
served() {
    modprobe ublk_drv
    blkzone reset "/dev/nvme$zoned"
    serve_ublk 0 "/dev/ng$zoned"
    refused "/dev/nvme$zoned is mounted" zone report "/dev/ng$zoned"
    refused "it is in use" zone report "/dev/nvme$zoned"
    [[ $(uname -r) == 6.* ]] || grep -F "/dev/ublkb0: zero copy" /out/ublk0.log
    zones_as_served /dev/ublkb0 60 8192 8 12
    equal "longest append" "$(attribute /dev/ublkb0 zone_append_max_bytes)" 65536
    fio_verify /dev/ublkb0 12m
    write_and_read /dev/ublkb0
    stop_ublk 0
    dd if="/dev/nvme$zoned" of=/tmp/read bs=128k count=8 iflag=direct
    cmp /tmp/data /tmp/read
}

# Zero copy: data move between the drive and the pages of requests, also for a file system's appends.
served_without_copies() {
    serve_lent 1 "/dev/ng$plain"
    counted fio --name=verify --filename=/dev/ublkb1 --direct=1 --ioengine=libaio --iodepth=32 \
        --bsrange=4k-1m --rw=randwrite --size=64M --io_size=24M --verify=crc32c
    equal "copies" "$copies" 0
    nothing_was_copied 1
    stop_ublk 1
    serve_lent 0 "/dev/ng$large"
    traced 0x7d btrfs_files /dev/ublkb0
    (($(cat /tmp/traced) > 50))
    nothing_was_copied 0
    stop_ublk 0
    btrfs check "/dev/nvme$large"
}

# The drive's limits are enforced.
limits() {
    blkzone reset "/dev/nvme$zoned"
    blkzone open --offset 0 --length $((8 * 8192)) "/dev/nvme$zoned"
    fails /job/zonal zone open -o $((8 * 8192)) -c 1 "/dev/ng$zoned" 2>/tmp/failed
    grep "too many open zones" /tmp/failed
    blkzone reset "/dev/nvme$zoned"
}

guest() {
    # shellcheck source=tests/guest/lib/filesystems.sh
    source /job/lib/filesystems.sh
    # shellcheck source=tests/guest/lib/zoned.sh
    source /job/lib/zoned.sh
    # shellcheck source=tests/guest/lib/ublk.sh
    source /job/lib/ublk.sh
    check "namespaces have nodes" nodes
    zoned=$(called zonal 1) plain=$(called zonal 2) odd=$(called zonal 3)
    metadata=$(called zonal 4) large=$(called zonal 5) paths=$(called paths 1)
    check "reports and zone actions" reports_and_actions "/dev/ng$zoned" "/dev/nvme$zoned" 60
    check "native appends" appends
    check "writes go through the plug" writes
    check "limits of the drive" limits
    check "a namespace without zones" without_zones
    check "zeroes" zeroes
    check "a multipath disk" multipath
    check "zones without a Linux block device" odd_zones
    check "devices in use, and files that are not generic nodes" in_use
    check "served, and busy meanwhile" served
    if [[ $(uname -r) == 6.* ]]; then
        skip "served with zero copy" "the driver of Linux $(uname -r) lends no pages"
    else
        check "served with zero copy" served_without_copies
    fi
}
