# Workloads of file operations, drawn from seeds, on a file system on a recorded ublk device, and each state that a loss
# of power may leave: --fs, --states, --workloads and --seed of tests/guest/run.
# shellcheck shell=bash

fs=${hunt_fs:-btrfs}
states=${hunt_states:-1000}

before() {
    case $fs in
    btrfs | f2fs) ;;
    xfs) needs_zoned_xfs ;;
    *) unusable "--fs: found \`$fs\`, expected btrfs, f2fs or xfs" ;;
    esac
    cp "${zonal:?}" "${job:?}/zonal"
    give hunt_fs "$fs"
    give hunt_states "$states"
    give hunt_workloads "${hunt_workloads:-50}"
    give hunt_seed "${hunt_seed:-1}"
    ((${limit:?} >= 86400)) || limit=86400
}

# Small zones, and few open ones for btrfs: that is where zoned file systems have to move data and wait.
record() {
    case $fs in
    btrfs) record_ublk btrfs 0 null:zones=40,max_open=8,max_active=16,zone_size=8M,lba=4096,memory=true \
        mkfs.btrfs --force --metadata single --data single ;;
    f2fs) record_f2fs 0 ;;
    xfs) record_xfs 0 ;;
    esac
    cp -r "${workloads:?}" /out
}

guest() {
    local library
    for library in ublk programs crash; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    modprobe ublk_drv
    : >/out/misplaced
    /job/zonal crash generate "$workloads" --seed "${hunt_seed:?}" --count "${hunt_workloads:?}"
    check "$hunt_workloads workloads are played on $fs" record
    # Rather more moments at which the power fails than more states at each.
    check "what was made durable is there in each of up to $states states" \
        check_states states "$fs" "/tmp/$fs.zlog" "$states" --per-cut 4
    report "# $(tail -n 1 /out/states.txt)"
}
