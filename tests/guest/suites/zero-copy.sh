# Block devices of the guest as ublk devices of the guest with zero copy: null_blk below, and a kernel
# whose ublk driver registers request pages as buffers. On an older kernel: that data are copied.
# shellcheck shell=bash

before() {
    cp "${zonal:?}" "${job:?}/zonal"
}

disks() {
    null_blks
    null_blk small0 blocksize=512
    null_blk large0 zoned=1 zone_size=8 zone_max_open=14 size=1024
    # 100 ms for each command.
    null_blk slow0 irqmode=2 completion_nsec=100000000
}

lends() {
    serve_ublk 0 /dev/plain0
    stop_ublk 0
    grep -F "/dev/ublkb0: zero copy" /out/ublk0.log
}

says_that_it_copies() {
    grep -F "/dev/ublkb0: data are copied: the kernel's ublk driver has no UBLK_F_" /out/ublk0.log
}

# 8 MiB in pieces of 64 KiB are 128 transfers or 128 copies in each direction; the kernel's partition
# scan may add some.
moves_without_copies() {
    dd if=/dev/urandom of=/tmp/data bs=1M count=8
    serve_lent 0 /dev/plain0
    counted dd if=/tmp/data of=/dev/ublkb0 bs=64k oflag=direct
    ((fixed >= 128))
    equal "copies" "$copies" 0
    counted dd if=/dev/ublkb0 of=/tmp/read bs=64k count=128 iflag=direct
    ((fixed >= 128))
    equal "copies" "$copies" 0
    cmp /tmp/data /tmp/read
    nothing_was_copied 0
    stop_ublk 0
    cmp /tmp/data <(dd if=/dev/plain0 bs=1M count=8 iflag=direct)
}

# On request; the disk below holds what was written with zero copy.
copies_on_demand() {
    serve_ublk 0 /dev/plain0 --ublk-copy
    grep -F "/dev/ublkb0: data are copied: as requested" /out/ublk0.log
    counted dd if=/dev/ublkb0 of=/tmp/read bs=64k count=128 iflag=direct
    equal "reads to buffers" "$fixed" 0
    ((copies >= 128))
    cmp /tmp/data /tmp/read
    stop_ublk 0
}

# Data at any address in memory that the block size allows.
fio_and_what_is_below() {
    local job
    job=(--size=64M --io_size=24M --rw=randwrite --bsrange=512-256k --iodepth=32
        --direct=1 --ioengine=libaio --verify=crc32c --iomem_align=512 --randseed=7)
    serve_lent 0 /dev/small0
    counted fio --name=below --filename=/dev/ublkb0 "${job[@]}"
    ((fixed > 200))
    equal "copies" "$copies" 0
    counted fio --name=sectors --filename=/dev/ublkb0 --size=1M --offset=128M --rw=randwrite \
        --bs=512 --iodepth=32 --direct=1 --ioengine=libaio --verify=crc32c --iomem_align=512
    ((fixed > 4000))
    nothing_was_copied 0
    stop_ublk 0
    fio --name=below --filename=/dev/small0 "${job[@]}" --verify_only
}

# Pages of the page cache too.
files() {
    serve_lent 0 /dev/plain0
    mkfs.ext4 -q /dev/ublkb0
    counted files_stay ext4 /dev/ublkb0
    ((fixed > 50))
    equal "copies" "$copies" 0
    nothing_was_copied 0
    stop_ublk 0
    e2fsck -f -n /dev/plain0
    mount /dev/plain0 /mnt/ext4
    cmp /tmp/b /mnt/ext4/b
    (cd /mnt/ext4/a && grep -v ' ./I' /tmp/sums | sha256sum --check --quiet -)
    umount /mnt/ext4
}

# Zones: a write that waits in a plug is issued on any thread's ring.
zones() {
    blkzone reset /dev/zoned0
    serve_lent 0 /dev/zoned0
    zones_as_served /dev/ublkb0 64 8192 8 12
    zone_actions /dev/ublkb0
    counted fio_verify /dev/ublkb0 24m
    ((fixed > 200))
    blkzone reset /dev/ublkb0
    fio --name=zones --filename=/dev/ublkb0 --direct=1 --zonemode=zbd --ioengine=libaio \
        --iodepth=32 --rw=randwrite --bs=4k --numjobs=2 --size=64M --offset_increment=64M \
        --io_size=8M --max_open_zones=8 --job_max_open_zones=4 --verify=crc32c --group_reporting
    write_and_read /dev/ublkb0
    nothing_was_copied 0
    stop_ublk 0
    cmp /tmp/data <(dd if=/dev/zoned0 bs=64k count=16 iflag=direct)
}

# The file system's appends become writes.
appends() {
    blkzone reset /dev/large0
    serve_lent 0 /dev/large0
    counted btrfs_files /dev/ublkb0
    ((fixed > 50))
    nothing_was_copied 0
    stop_ublk 0
    btrfs check /dev/large0
}

# With --ctl, faults can be injected: such a command does not reach the device.
failures() {
    serve_lent 0 /dev/plain0 --ctl /tmp/ctl.sock
    dd if=/tmp/data of=/dev/ublkb0 bs=64k count=4 oflag=direct
    /job/zonal ctl /tmp/ctl.sock fault add fail=read,status=medium,count=1
    fails dd if=/dev/ublkb0 of=/tmp/read bs=64k count=1 iflag=direct
    dd if=/dev/ublkb0 of=/tmp/read bs=64k count=4 iflag=direct
    cmp --bytes 262144 /tmp/data /tmp/read
    nothing_was_copied 0
    stop_ublk 0
}

# The slow disk's rings have request pages registered all the time.
stopped_while_it_moves() {
    serve_lent 1 /dev/slow0
    stopped_under 1 30 --iodepth=32 --rw=randrw --bs=64k
    serve_lent 1 /dev/slow0
    dd if=/dev/ublkb1 of=/dev/null bs=64k count=4 iflag=direct
    stop_ublk 1
}

# The server is killed while its rings have request pages registered, and other servers take over,
# one of which copies; every block holds what was written last.
killed_while_it_moves() {
    local disk=$1 writer number mode
    shift
    serve_lent 1 "$disk" --recover
    fio --name=writer --filename=/dev/ublkb1 --allow_file_create=0 --direct=1 --ioengine=libaio \
        --iodepth=16 --bs=4k --rw=randwrite --verify=crc32c "$@" >/tmp/writer 2>&1 &
    writer=$!
    for mode in serve_lent "serve_ublk --ublk-copy" serve_lent; do
        sleep 3
        kill_ublk 1
        sleep 1
        read -r -a number <<<"$mode"
        "${number[0]}" 1 "$disk" --recover "${number[@]:1}"
    done
    kill -0 "$writer"
    wait "$writer"
    cat /tmp/writer
    grep 'err= 0' /tmp/writer
    nothing_was_copied 1
    stop_ublk 1
}

guest() {
    # shellcheck source=tests/guest/lib/filesystems.sh
    source /job/lib/filesystems.sh
    # shellcheck source=tests/guest/lib/null_blk.sh
    source /job/lib/null_blk.sh
    # shellcheck source=tests/guest/lib/zoned.sh
    source /job/lib/zoned.sh
    # shellcheck source=tests/guest/lib/ublk.sh
    source /job/lib/ublk.sh
    modprobe ublk_drv
    check "null_blk" disks
    if [[ $(uname -r) == 6.* ]]; then
        serve_ublk 0 /dev/plain0 >/dev/null && stop_ublk 0 >/dev/null
        check "without support by the driver: data are copied, and it is logged" says_that_it_copies
        return
    fi
    check "zero copy is logged" lends
    check "data are transferred without a copy" moves_without_copies
    check "data are copied with --ublk-copy" copies_on_demand
    check "fio, with verification, and the disk below" fio_and_what_is_below
    check "files, through the page cache" files
    check "zones" zones
    check "appends: btrfs" appends
    check "injected faults" failures
    check "stopped with transfers in flight" stopped_while_it_moves
    check "killed during writes" killed_while_it_moves /dev/plain0 --size=64M --rate_iops=600
    check "killed with transfers in flight" killed_while_it_moves /dev/slow0 --size=4M --rate_iops=40
}
