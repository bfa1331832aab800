# XFS on a recorded ublk device: metadata and log in conventional zones, the files' data in sequential
# ones. CRASH_STATES=N checks N states.
# shellcheck shell=bash

operations=30
states=${CRASH_STATES:-210}

before() {
    [[ $states =~ ^[1-9][0-9]*$ ]] || unusable "CRASH_STATES: found \`$states\`, expected a number"
    needs_zoned_xfs
    cp "${zonal:?}" "${job:?}/zonal"
    give CRASH_STATES "$states"
    ((${limit:?} >= 14400)) || limit=14400
}

# That the check finds losses is a part of crash-btrfs and crash-f2fs.
guest() {
    local library
    for library in ublk programs crash; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    modprobe ublk_drv
    check "XFS is recorded, with a mark after each fsync" record_xfs "$operations"
    check "what was synced is there in each of $states states" \
        check_states states xfs /tmp/xfs.zlog "$states"
}
