# f2fs on a recorded ublk device with conventional zones, and in each state that a loss of power may
# leave. NVMe namespaces have no conventional zones, and two devices are not one recording.
# shellcheck shell=bash

operations=30
states=210

before() {
    cp "${zonal:?}" "${job:?}/zonal"
    ((${limit:?} >= 14400)) || limit=14400
}

# f2fs sends the flush of an fsync before the write of the file's node has completed, and writes the
# node before the data are durable (docs/crash-lab.md). So states may fail, and are reported.
states_with_cache() {
    local code=0
    check_states cache f2fs /tmp/f2fs.zlog "$states" || code=$?
    ((code <= 1))
    report "# $(tail -n 1 /out/cache.txt)"
}

guest() {
    local library
    for library in ublk crash; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    modprobe ublk_drv
    check "f2fs is recorded, with a mark after each fsync" record_f2fs "$operations"
    check "losses are seen" losses_are_seen
    check "what was synced is there in each of $((states / 2)) states of a drive without a cache" \
        check_states no-cache f2fs /tmp/f2fs.zlog $((states / 2)) --cache 0
    check "$states states of a drive with a cache" states_with_cache
}
