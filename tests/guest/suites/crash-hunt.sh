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
    give hunt_atomic "${hunt_atomic-}"
    ((${limit:?} >= 86400)) || limit=86400
    keep_results
}

# The guest's disk for what has been found, the fifth, stays: for --resume, and for a guest after one that hung.
keep_results() {
    watched=${out:?}.disk
    if [[ -z ${hunt_resume-} ]]; then
        rm -f "$watched"
    elif [[ ! -e $watched ]]; then
        unusable "--resume: $watched is not there, expected that of a hunt before"
    fi
    truncate -s 2G "$watched"
    qemu_options+=(-drive "file=$watched,format=raw,if=virtio,cache=unsafe")
}

# Small zones, and few open ones for btrfs: that is where zoned file systems have to move data and wait.
record() {
    case $fs in
    btrfs) record_ublk btrfs 0 null:zones=40,max_open=8,max_active=16,zone_size=8M,lba=4096,memory=true \
        mkfs.btrfs --force --metadata single --data single ;;
    f2fs) record_f2fs 0 ;;
    xfs) record_xfs 0 ;;
    esac
    cp -r "${workloads:?}" "/tmp/$fs.zlog" "${keep:?}"
    sync --file-system "$keep"
    touch "$keep/recorded"
}

# Of the guest before.
recorded() {
    cp -r "$keep/workloads" "$workloads"
    cp "$keep/$fs.zlog" /tmp
    if grep -q zonal.again /proc/cmdline; then
        add_hung_state
    fi
}

guest() {
    local library
    for library in ublk programs crash; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    modprobe ublk_drv
    modprobe "$fs"
    mkdir -p "${keep:?}"
    mount -t ext4 /dev/vde "$keep" 2>/dev/null || { mkfs.ext4 -q /dev/vde && mount -t ext4 /dev/vde "$keep"; }
    : >/out/misplaced
    if [[ -e $keep/recorded ]]; then
        check "the hunt goes on" recorded
    else
        rm -rf "${keep:?}"/*
        /job/zonal crash generate "${workloads:?}" --seed "${hunt_seed:?}" --count "${hunt_workloads:?}"
        check "$hunt_workloads workloads are played on $fs" record
    fi
    # Rather more moments at which the power fails than more states at each.
    local options=(--per-cut 4)
    [[ -z $hunt_atomic ]] || options+=(--atomic "$hunt_atomic")
    check "what was made durable is there in each of up to $states states" \
        check_states states "$fs" "/tmp/$fs.zlog" "$states" "${options[@]}"
    rm -f "$keep/now"
    cp -r "$keep"/{workloads,verdicts,states.journal} /out || true
    cp "/tmp/$fs.zlog" /out
    report "# $(tail -n 1 /out/states.txt)"
}
