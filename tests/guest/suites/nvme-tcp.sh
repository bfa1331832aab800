# What a Linux host does with a ZNS drive over NVMe/TCP: the profile zns-1t with fewer zones.
# shellcheck shell=bash

before() {
    serve zns zns-1t:zones=48,memory=true
    serve conventional null:zoned=false,size=5G,lba=4096,memory=true
    serve private null:zones=4,lba=4096 --allow-host nqn.2026-11.org.example:other
}

# Only hosts on the list may connect.
allowed_hosts() {
    fails attach private
    # shellcheck disable=SC2034
    host_names[1]=nqn.2026-11.org.example:other
    attach private
    detach private
}

# fio_jobs DISK: several jobs on zones of their own, through libaio and NVMe pass-through.
fio_jobs() {
    blkzone reset "$1"
    fio --name=zones --filename="$1" --direct=1 --zonemode=zbd --ioengine=libaio --iodepth=8 \
        --rw=randwrite --bs=16k --numjobs=3 --size=6G --offset_increment=6G --io_size=8M \
        --max_open_zones=12 --job_max_open_zones=4 --verify=crc32c --group_reporting
    fio --name=commands --filename="/dev/ng${1#/dev/nvme}" --ioengine=io_uring_cmd --cmd_type=nvme \
        --rw=randread --bs=4k --iodepth=8 --size=1M --io_size=4M
}

# The target is silent for longer than the keep-alive timeout, and keeps its data.
silence() {
    ask pause zns
    until_true 30 is_in_state "$1" connecting
    ask continue zns
    until_true 60 is_in_state "$1" live
}
data_survive_silence() {
    with_readers "$1" silence "$2"
    dd if="$1" of=/tmp/read bs=128k count=8 iflag=direct
    cmp /tmp/data /tmp/read
}

# The target is killed and restarted. It held its data in memory: all zones are empty.
restart() {
    ask kill zns
    until_true 30 is_in_state "$1" connecting
    ask start zns
    until_true 60 is_in_state "$1" live
}
work_goes_on_after_restart() {
    with_readers "$1" restart "$2"
    equal "empty zones" "$(blkzone report "$1" | grep -c '(em)')" 48
    write_and_read "$1"
}

# A second controller of the same subsystem takes over from the first.
lose_one_path() {
    echo 1 >"/sys/class/nvme/$1/delete_controller"
    fails test -e "/sys/class/nvme/$1"
}
two_paths() {
    local first
    attach zns --keep-alive-tmo=2
    first=$(controller_of zns)
    attach zns --keep-alive-tmo=2 --duplicate-connect
    equal controllers "$(controller_of zns | wc -l)" 2
    with_readers "$(disk_of zns)" lose_one_path "${first##*/}"
    nvme disconnect -n "$(nqn_of zns)"
}

guest() {
    local library disk controller
    for library in nvme nvme_cli zoned filesystems; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    check "discovery" discover zns
    check "attach" attach zns --keep-alive-tmo=2 --reconnect-delay=1
    disk=$(disk_of zns)
    controller=$(controller_of zns)
    check "nvme-cli lists it" lists zns "$disk"
    check "zones as served" zones_as_served "$disk" 48 4194304 14 14
    check "Identify" identify "$disk" 48 524288 14 14
    check "nvme zns: report, open, append, close, finish, reset" cli_zones "$disk" 48 524288
    check "Compare, Verify, Write Zeroes, Dataset Management, Flush" cli_commands "$disk"
    check "log pages and features" cli_logs "$disk" "$controller"
    check "data are read back, a misplaced write fails" write_and_read "$disk"
    check "zone actions" zone_actions "$disk"
    check "limit of open zones" open_limit "$disk"
    check "fio, in order, with verification" fio_verify "$disk" 32m
    check "fio, several jobs on several zones" fio_jobs "$disk"
    if is_old; then
        # "Corrupted write pointer 16777216 for zone at 16777216", of the first append to a zone.
        skip "zonefs: files after a remount" "6.1.176 calls an append to the right place a wrong one"
    else
        check "zonefs: files after a remount" zonefs_files "$disk"
    fi
    check "btrfs: files after a remount" btrfs_files "$disk"
    check "attach a device without zones" attach conventional
    check "discard" discard "$(disk_of conventional)"
    check "f2fs: files after a remount" f2fs_files "$disk" "$(disk_of conventional)"
    check "detach it" detach conventional
    check "the controller is reset under load" with_readers "$disk" reset_controller "${controller##*/}"
    check "data survive a silent target" data_survive_silence "$disk" "${controller##*/}"
    check "I/O resumes after a restart of the target" work_goes_on_after_restart "$disk" "${controller##*/}"
    check "detach" detach zns
    if is_old; then
        skip "one of two paths is lost under load" "attached without multipath"
    else
        check "one of two paths is lost under load" two_paths
    fi
    check "hosts that are not allowed" allowed_hosts
    check "attach with digests" attach zns --hdr-digest --data-digest
    check "fio with digests" fio_verify "$(disk_of zns)" 8m
    check "detach" detach zns
}
