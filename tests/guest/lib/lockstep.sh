# The same bios through the kernel and through the block layer (tests/lockstep). Sourced by suites, on
# both sides.
# shellcheck shell=bash

# build_lockstep: the program, unless it was built.
build_lockstep() {
    [[ -z ${lockstep-} ]] || return 0
    (cd "${here:?}/../.." && cargo build --locked --quiet --package zonal-lockstep)
    lockstep=$(cd "$here/../.." && realpath "${CARGO_TARGET_DIR:-target}/debug/zonal-lockstep")
    cp "$lockstep" "${job:?}/lockstep"
}

# add_lockstep NAME SLOT [OPTION...]: a disk with one queue, whose server has no plugs, records what reaches the
# device or has these options instead, and is controlled by the guest. Needs lib/qemu.sh.
add_lockstep() {
    local name=$1 slot=$2 watched=(--record "${out:?}/$1.zlog")
    shift 2
    (($# == 0)) || watched=("$@")
    build_lockstep
    serve_at --vhost-user "$name" "$("$lockstep" device)" --serial "$name" --zone-write off \
        "${watched[@]}" --ctl "${work:?}/$name.ctl"
    # shellcheck disable=SC2154
    qemu_options+=(-chardev "socket,id=$name,path=${work:?}/$name.sock"
        -device "${zoned_disk/num_vqs=2/num_vqs=1},chardev=$name,addr=$slot")
}

# add_lockstep_tcp NAME: the same over NVMe/TCP.
add_lockstep_tcp() {
    local name=$1
    build_lockstep
    serve "$name" "$("$lockstep" device --export nvme-tcp)" --zone-write off \
        --record "${out:?}/$name.zlog" --ctl "${work:?}/$name.ctl"
}

# add_lockstep_pci NAME: the same on the guest's PCIe bus.
add_lockstep_pci() {
    local name=$1
    build_lockstep
    add_drive "$name" "$("$lockstep" device --export nvme-pci)" --zone-write off --io-queues 1 \
        --record "${out:?}/$name.zlog" --ctl "${work:?}/$name.ctl"
}

# load_nvme_for_lockstep: without multipath, whose disk is not the one with the plugs. A failed command is not sent
# again, and none times out while the server is stopped.
load_nvme_for_lockstep() {
    modprobe nvme-core multipath=N max_retries=0 io_timeout=3600
}

# attach_lockstep NAME: with one queue. Needs lib/nvme.sh.
attach_lockstep() {
    load_nvme_for_lockstep
    attach "$1" -i 1 --keep-alive-tmo=3600
}

# ctl NAME COMMAND...: of a server.
on_ctl() {
    "${zonal:?}" ctl "${work:?}/$1.ctl" "${@:2}" >>"${out:?}/$1.ctl.log" 2>&1
}

# same NAME SEED CASES OPTION...: what the guest wrote to NAME.results and what the server of that name
# recorded is what the layer does. For a suite's `after`.
same() {
    local options=()
    [[ ! -e ${out:?}/old ]] || options+=(--old)
    [[ ! -e $out/$1.zlog ]] || options+=(--log "$out/$1.zlog")
    "${lockstep:?}" compare --seed "$2" --cases "$3" "${options[@]}" "${@:4}" --results "$out/$1.results"
}

has_qd1() {
    [[ -e /sys/block/$(basename "$(virtio_disk_of lockstep)")/queue/zoned_qd1_writes ]]
}

# lockstep NAME DISK SEED CASES OPTION...: submits a script to a disk, which the server NAME serves. Kernels
# before QD=1, whose write pointers move before a reset completes, get one without what they do differently.
lockstep() {
    local name=$1 disk=$2 seed=$3 cases=$4 old=()
    if ! has_qd1; then
        old=(--old)
        touch /out/old
    fi
    /job/lockstep submit --seed "$seed" --cases "$cases" "${old[@]}" "${@:5}" --server "$name" \
        --results "/out/$name.results" "$disk"
}
