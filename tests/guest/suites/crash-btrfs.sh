# btrfs on a recorded namespace over NVMe/TCP, and in each state that a loss of power may leave.
# shellcheck shell=bash

operations=30
states=210

before() {
    cp "${zonal:?}" "${job:?}/zonal"
    serve recorded null:zones=32,zone_size=8M,lba=4096,max_open=8,max_active=16,memory=true \
        --record "${out:?}/btrfs.zlog"
    # shellcheck source=tests/guest/lib/hand.sh
    source "${here:?}/lib/hand.sh"
    hand_disk
    ((${limit:?} >= 14400)) || limit=14400
}

# mark TEXT: into the log of the recording.
mark() {
    printf '%-64s' "$1" >/tmp/mark
    nvme admin-passthru "$controller" --opcode=0xc1 --namespace-id=1 --data-len=64 --write \
        --input-file=/tmp/mark
}

record() {
    controller=$(controller_of recorded)
    modprobe btrfs
    mkfs.btrfs --force --metadata single --data single "$(disk_of recorded)"
    mkdir -p "${place:?}"
    mount -t btrfs "$(disk_of recorded)" "$place"
    workload "$operations" mark
    umount "$place"
    detach recorded
    ask stop recorded
    ask hand btrfs.zlog
    taken /tmp/btrfs.zlog
}

guest() {
    local library
    for library in nvme hand crash; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    check "attach" attach recorded
    check "btrfs is recorded, with a mark after each fsync" record
    modprobe ublk_drv
    : >/out/misplaced
    check "losses are seen" losses_are_seen
    check "what was synced is there in each of $states states" \
        check_states states btrfs /tmp/btrfs.zlog "$states"
    report "# $(wc -l </out/misplaced) states with nodes across a boundary of 64 KiB"
}
