# A Linux host with two paths to drives, whose ANA states change while fio writes and verifies.
# shellcheck shell=bash

before() {
    # shellcheck source=tests/guest/lib/paths.sh
    source "${here:?}/lib/paths.sh"
    serve_twice zoned null:zones=64,zone_size=8M,lba=4096,max_open=8,max_active=16,memory=true
    serve_twice plain null:zoned=false,size=64M,lba=4096,memory=true
}

# all_states NAME
all_states() {
    local state
    for state in non-optimized inaccessible change persistent-loss optimized; do
        set_ana "$1" "$(other_of "$1")" "$state"
        has_state "$(port_of "$1")" optimized
    done
}

# alternate NAME: each path in turn becomes inaccessible.
alternate() {
    local port
    for port in "$(port_of "$1")" "$(other_of "$1")" "$(port_of "$1")" "$(other_of "$1")"; do
        set_ana "$1" "$port" inaccessible
        sleep 1
        set_ana "$1" "$port" optimized
    done
}

# no_path NAME: no path is accessible for a moment: I/O waits.
no_path() {
    set_ana "$1" "$(port_of "$1")" inaccessible
    set_ana "$1" "$(other_of "$1")" inaccessible
    sleep 2
    set_ana "$1" "$(other_of "$1")" optimized
    sleep 1
    set_ana "$1" "$(port_of "$1")" optimized
}

# state_of PORT: of its controller.
state_of() {
    local controller
    controller=$(grep --files-with-matches "trsvcid=$1" /sys/class/nvme/*/address)
    cat "${controller%/*}/state"
}

is_controller() {
    [[ $(state_of "$1") == "$2" ]]
}

# lose_path NAME: the connections of a path break, and come back.
lose_path() {
    local port
    port=$(port_of "$1")
    ss --kill --tcp --numeric dst "${address:?}" dport = ":$port"
    until_true 10 is_controller "$port" connecting
    until_true 60 is_controller "$port" live
}

# zones DISK ARGUMENT...: fio writes to four zones, or reads and verifies.
zones() {
    local disk=$1
    shift
    fio --name=zones --filename="$disk" --direct=1 --zonemode=zbd --ioengine=libaio --iodepth=4 \
        --numjobs=4 --bs=32k --size=8M --offset_increment=8M --verify=crc32c --group_reporting "$@"
}
# No writes while the path changes: each path has zone write plugs of its own in the kernel (6.12),
# which do not know of writes over the other.
write_zones() {
    blkzone reset "$1"
    zones "$1" --rw=write --do_verify=0
}
read_zones() {
    zones "$1" --rw=read --rate=1m
}
write_blocks() {
    fio --name=blocks --filename="$1" --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite \
        --bs=16k --size=64M --io_size=24M --verify=crc32c --do_verify=1 --rate=6m
}

# under_load JOB NAME CHANGE: fio runs again and again until the change of the paths has ended.
under_load() {
    local job=$1 name=$2 change=$3 disk fio
    disk=$(disk_of "$name")
    rm -f /tmp/enough /tmp/failed
    (
        until [[ -e /tmp/enough ]]; do
            "$job" "$disk" >/tmp/fio 2>&1 || { touch /tmp/failed && break; }
        done
    ) &
    fio=$!
    sleep 2
    "$change" "$name"
    touch /tmp/enough
    wait "$fio"
    cat /tmp/fio
    fails test -e /tmp/failed
    grep 'err= 0' /tmp/fio
}

guest() {
    local library
    for library in nvme paths zoned filesystems; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    check "attach a zoned drive over two paths" attach_both zoned
    check "the kernel follows each ANA state" all_states zoned
    check "zones are written" write_zones "$(disk_of zoned)"
    check "zones: each path is inaccessible in turn" under_load read_zones zoned alternate
    check "zones: no path is accessible for a while" under_load read_zones zoned no_path
    check "zones: a path is lost, and comes back" under_load read_zones zoned lose_path
    check "btrfs: files after a remount" btrfs_files "$(disk_of zoned)"
    check "detach" detach zoned
    check "attach a drive without zones over two paths" attach_both plain
    check "blocks: each path is inaccessible in turn" under_load write_blocks plain alternate
    check "blocks: no path is accessible for a while" under_load write_blocks plain no_path
    check "blocks: a path is lost, and comes back" under_load write_blocks plain lose_path
    check "detach" detach plain
}
