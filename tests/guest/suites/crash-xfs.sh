# XFS on a recorded ublk device: metadata and log in conventional zones, the files' data in sequential
# ones. Debian's stable release has no mkfs.xfs that makes such file systems, so it is that of sid.
# CRASH_STATES=N checks N states.
# shellcheck shell=bash

operations=30
states=${CRASH_STATES:-210}

before() {
    [[ ${kernel:?} == 7 ]] || unusable "--kernel: found \`$kernel\`, expected 7, for XFS on zones"
    [[ $states =~ ^[1-9][0-9]*$ ]] || unusable "CRASH_STATES: found \`$states\`, expected a number"
    local library
    for library in packages programs; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    fetch_programs xfsprogs sid xfsprogs libblkid1 libc6 libinih1 liburcu8t64 libuuid1
    cp "${zonal:?}" "${job:?}/zonal"
    give CRASH_STATES "$states"
    ((${memory:?} >= 2048)) || memory=2048
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
    # The data section, in conventional zones, has at least 300 MiB.
    check "XFS is recorded, with a mark after each fsync" record_ublk xfs "$operations" \
        null:zones=96,conventional=48,zone_size=8M,lba=4096,memory=true \
        newer xfsprogs mkfs.xfs -f -r zoned=1
    check "what was synced is there in each of $states states" \
        check_states states xfs /tmp/xfs.zlog "$states"
}
