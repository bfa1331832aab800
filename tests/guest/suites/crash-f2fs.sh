# f2fs on a recorded ublk device with conventional zones, and in each state that a loss of power may
# leave. NVMe namespaces have no conventional zones, and two devices are not one recording.
# shellcheck shell=bash

operations=30
states=210

before() {
    cp "${zonal:?}" "${job:?}/zonal"
}

mark() {
    /job/zonal ctl /tmp/ctl mark "$1"
}

record() {
    serve_ublk 0 null:zones=64,conventional=8,zone_size=8M,lba=4096,memory=true \
        --record /tmp/f2fs.zlog --ctl /tmp/ctl
    modprobe f2fs
    mkfs.f2fs -f -m /dev/ublkb0
    mkdir -p "${place:?}"
    mount -t f2fs /dev/ublkb0 "$place"
    workload "$operations" mark
    umount "$place"
    stop_ublk 0
    cp /tmp/f2fs.zlog /out
}

# f2fs sends the flush of an fsync before the write of the file's node has completed, and writes the
# node before the data are durable (docs/crash-lab.md). So states may fail, and are reported.
states_with_cache() {
    local code=0
    check_states f2fs /tmp/f2fs.zlog "$states" || code=$?
    ((code <= 1))
    report "# $(tail -n 1 /out/states.txt)"
}

guest() {
    local library
    for library in ublk crash; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    modprobe ublk_drv
    check "f2fs is recorded, with a mark after each fsync" record
    check "losses are seen" losses_are_seen
    check "what was synced is there in each of $states states of a drive without a cache" \
        check_states f2fs /tmp/f2fs.zlog "$states" --cache 0
    check "$states states of a drive with a cache" states_with_cache
}
