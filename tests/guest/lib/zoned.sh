# Tests of any zoned block device in the guest, given as its first argument. Sourced by suites.
# shellcheck shell=bash

# attribute DISK NAME: an attribute of its request queue.
attribute() {
    cat "/sys/block/${1##*/}/queue/$2"
}

# limit DISK NAME: an attribute of its path's request queue, if it has paths. Linux 6.12 does not
# copy max_open_zones and max_active_zones to the multipath disk.
limit() {
    local disk=${1##*/} path
    for path in "/sys/block/${disk%n*}"c*n"${disk##*n}" "/sys/block/$disk"; do
        [[ ! -e $path/queue ]] || break
    done
    cat "$path/queue/$2"
}

# zone DISK NUMBER FIELD: what blkzone reports, such as start, cap, wptr or zcond.
zone() {
    blkzone report --offset "$(($2 * $(attribute "$1" chunk_sectors)))" --count 1 "$1" |
        sed -n "s/.*\<$3[ :]*\([0-9a-z]*([a-z]*)\|0x[0-9a-f]*\).*/\1/p"
}

# zones_as_served DISK ZONES SECTORS OPEN ACTIVE [CONVENTIONAL]
zones_as_served() {
    equal zoned "$(attribute "$1" zoned)" host-managed
    equal nr_zones "$(attribute "$1" nr_zones)" "$2"
    equal chunk_sectors "$(attribute "$1" chunk_sectors)" "$3"
    equal max_open_zones "$(limit "$1" max_open_zones)" "$4"
    equal max_active_zones "$(limit "$1" max_active_zones)" "$5"
    fails equal zone_append_max_bytes "$(attribute "$1" zone_append_max_bytes)" 0
    blkzone report "$1" >/tmp/zones
    equal "zones reported" "$(wc -l </tmp/zones)" "$2"
    equal "sequential zones" "$(grep -c SEQ_WRITE_REQUIRED /tmp/zones)" "$(($2 - ${6-0}))"
}

# write_and_read DISK [ZONE]: data are read back from a sequential zone; a write that is not at its
# write pointer fails.
write_and_read() {
    local disk=$1 zone=${2-0} start
    start=$((zone * $(attribute "$disk" chunk_sectors) * 512))
    blkzone reset "$disk"
    dd if=/dev/urandom of=/tmp/data bs=64k count=16
    dd if=/tmp/data of="$disk" bs=256k oflag=direct,seek_bytes seek="$start"
    dd if="$disk" of=/tmp/read bs=128k count=8 iflag=direct,skip_bytes skip="$start"
    cmp /tmp/data /tmp/read
    equal "write pointer" "$(zone "$disk" "$zone" wptr)" 0x000800
    fails dd if=/tmp/data of="$disk" bs=4k count=1 oflag=direct,seek_bytes seek="$((start + 36864))"
    equal "write pointer" "$(zone "$disk" "$zone" wptr)" 0x000800
}

# zone_actions DISK [ZONE]: each zone management command, and the condition after it, on a sequential
# zone and the next one.
zone_actions() {
    local disk=$1 zone=${2-0} sectors first second
    sectors=$(attribute "$disk" chunk_sectors)
    first=$((zone * sectors))
    second=$((first + sectors))
    blkzone reset "$disk"
    dd if=/dev/zero of="$disk" bs=4k count=1 oflag=direct,seek_bytes seek="$((first * 512))"
    equal "after a write" "$(zone "$disk" "$zone" zcond)" "2(oi)"
    blkzone close --offset "$first" --count 1 "$disk"
    equal "after close" "$(zone "$disk" "$zone" zcond)" "4(cl)"
    blkzone finish --offset "$first" --count 1 "$disk"
    equal "after finish" "$(zone "$disk" "$zone" zcond)" "14(fu)"
    fails dd if=/dev/zero of="$disk" bs=4k count=1 oflag=direct,seek_bytes \
        seek="$((first * 512 + 4096))"
    blkzone reset --offset "$first" --count 1 "$disk"
    equal "after reset" "$(zone "$disk" "$zone" zcond)" "1(em)"
    blkzone open --offset "$second" --count 1 "$disk"
    equal "after open" "$(zone "$disk" "$((zone + 1))" zcond)" "3(oe)"
    blkzone close --offset "$second" --count 1 "$disk"
    equal "after closing an empty zone" "$(zone "$disk" "$((zone + 1))" zcond)" "1(em)"
}

# open_limit DISK [ZONE]: opening more zones than max_open_zones fails, from a sequential zone on.
open_limit() {
    local disk=$1 most sectors first next
    most=$(limit "$disk" max_open_zones)
    sectors=$(attribute "$disk" chunk_sectors)
    first=$((${2-0} * sectors))
    next=$((first + most * sectors))
    blkzone reset "$disk"
    blkzone open --offset "$first" --length "$((most * sectors))" "$disk"
    fails blkzone open --offset "$next" --count 1 "$disk"
    blkzone close --offset "$first" --length "$((most * sectors))" "$disk"
    blkzone open --offset "$next" --count 1 "$disk"
    blkzone reset "$disk"
}

# fio_verify DISK IO_SIZE OPTION...: writes to four zones and verifies.
fio_verify() {
    local disk=$1 io_size=$2
    shift 2
    blkzone reset "$disk"
    fio --name=verify --filename="$disk" --direct=1 --zonemode=zbd --ioengine=libaio --iodepth=16 \
        --rw=write --bs=32k --size="$((4 * $(attribute "$disk" chunk_sectors) / 2))k" \
        --io_size="$io_size" --verify=crc32c --do_verify=1 \
        --max_open_zones="$(limit "$disk" max_open_zones)" "$@"
}

# discard DISK [OPTION]: a device without zones; discarded blocks read as zeroes, their neighbours do
# not. The same for Write Zeroes, with --zeroout.
discard() {
    dd if=/dev/urandom of=/tmp/data bs=4k count=4
    dd if=/tmp/data of="$1" bs=16k count=1 oflag=direct
    blkdiscard --offset 4096 --length 8192 "${@:2}" "$1"
    dd if=/dev/zero of=/tmp/data bs=4k seek=1 count=2 conv=notrunc
    dd if="$1" of=/tmp/read bs=16k count=1 iflag=direct
    cmp /tmp/data /tmp/read
}

# with_readers DISK COMMAND...: reads succeed while the command runs.
with_readers() {
    local disk=$1 readers
    shift
    blkzone reset "$disk"
    dd if=/dev/urandom of=/tmp/data bs=64k count=16
    dd if=/tmp/data of="$disk" bs=256k oflag=direct
    fio --name=readers --filename="$disk" --direct=1 --ioengine=libaio --iodepth=4 --rw=randread \
        --bs=4k --size=1M --time_based --runtime=30 >/tmp/readers &
    readers=$!
    sleep 3
    "$@"
    kill -0 "$readers"
    wait "$readers"
    cat /tmp/readers
    grep 'err= 0' /tmp/readers
}

# same_reports FILE FILE: except for the write pointers of full zones, which are undefined.
same_reports() {
    sed -i '/(fu)/s/wptr 0x[0-9a-f]*//' "$@"
    diff -w "$@"
}

# same_zones DEVICE DISK: zonal's report of DEVICE is blkzone's report of DISK.
same_zones() {
    /job/zonal zone report "$1" >/tmp/ours
    blkzone report "$2" >/tmp/theirs
    same_reports /tmp/ours /tmp/theirs
}

# reports_and_actions DEVICE DISK ZONES: the disk as a device of zonal, with that many zones.
reports_and_actions() {
    blkzone reset "$2"
    same_zones "$1" "$2"
    dd if=/dev/zero of="$2" bs=4k count=3 oflag=direct
    /job/zonal zone open -o 8192 -c 1 "$1"
    equal "after open" "$(zone "$2" 1 zcond)" "3(oe)"
    /job/zonal zone finish -o 16384 -c 1 "$1"
    equal "after finish" "$(zone "$2" 2 zcond)" "14(fu)"
    /job/zonal zone close -c 1 "$1"
    equal "after close" "$(zone "$2" 0 zcond)" "4(cl)"
    same_zones "$1" "$2"
    /job/zonal zone reset "$1"
    equal "empty zones" "$(blkzone report "$2" | grep -c '(em)')" "$3"
    same_zones "$1" "$2"
}
