# Flexible data placement: an ssd with four reclaim unit handles over NVMe/TCP and on the guest's PCIe bus, as
# nvme-cli, fio and the kernel use it.
# shellcheck shell=bash

# Blocks of 4 KiB in a reclaim unit.
unit=768

before() {
    local library device=ssd:size=192M,overprovision=50%,dies=4,channels=2,block=384K,fdp_handles=4,memory=true
    for library in packages qemu; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    use_new_qemu
    share_memory
    serve placed "$device"
    serve ordinary ssd:size=64M,block=384K,dies=4,channels=2,overprovision=100%,memory=true
    add_drive drive "$device"
}

# left DISK: by placement identifier, the blocks that can still be written to its unit.
left() {
    of nvme fdp status "$1" '[.ruhss[].ruamw] | map(tostring) | join(" ")'
}

# written DISK: bytes that the host wrote.
written() {
    of nvme fdp stats "$1" --endgrp-id=1 '.hbmw'
}

# place DISK INDICES SIZE OPTION...: writes in order from the start of the disk.
place() {
    fio --name=place --filename="/dev/ng${1#/dev/nvme}" --ioengine=io_uring_cmd --cmd_type=nvme --rw=write \
        --bs=64k --size="$3" --dataplacement=fdp --plids="$2" "${@:4}"
}

# What the drive says of itself.
configuration() {
    nvme fdp configs "$1" --endgrp-id=1 --human-readable
    equal "size of a unit" \
        "$(nvme fdp configs "$1" --endgrp-id=1 --raw-binary | od -An -t u8 -j 32 -N 8 | tr -d ' ')" \
        "$((unit * 4096))"
    equal handles \
        "$(nvme fdp configs "$1" --endgrp-id=1 --raw-binary | od -An -t u2 -j 24 -N 2 | tr -d ' ')" 4
    equal "used handles" \
        "$(nvme fdp usage "$1" --endgrp-id=1 --raw-binary | od -An -t u1 -j 8 -w8 -v | awk '{ n += $1 } END { print n }')" 4
    nvme fdp feature "$1" --endgrp-id=1 | grep -E 'FDPE.*Yes'
    refused nvme fdp feature "$1" --endgrp-id=1 --disable
    equal "endurance group" "$(of nvme id-ns "$1" .endgid)" 1
    equal left "$(left "$1")" "$unit $unit $unit $unit"
}

# Each write goes to the unit of its identifier.
placement() {
    local before
    before=$(written "$1")
    place "$1" 2 8M
    equal "8 MiB by identifier 2" "$(left "$1")" "$unit $unit $((unit - 2048 % unit)) $unit"
    place "$1" 0,3 1M
    equal "1 MiB by two in turn" "$(left "$1")" \
        "$((unit - 128)) $unit $((unit - 2048 % unit)) $((unit - 128))"
    equal bytes "$(($(written "$1") - before))" $((9 << 20))
}

# A handle is updated, which is an event.
update() {
    nvme fdp set-events "$1" --placement-handle=3 --enable --event-types=0
    nvme io-passthru "$1" --opcode=0x1d --namespace-id=1 --cdw10=$((1 | 1 << 16)) --data-len=4 --write \
        --input-file=<(printf '\000\000\003\000')
    equal left "$(left "$1")" "$unit $unit $((unit - 2048 % unit)) $unit"
    equal "events of the host" "$(nvme fdp events "$1" --endgrp-id=1 --host-events --raw-binary |
        od -An -t u4 -N 4 | tr -d ' ')" 1
}

# Data of several streams are read back, while the drive collects.
verified() {
    fio --name=first --filename="/dev/ng${1#/dev/nvme}" --ioengine=io_uring_cmd --cmd_type=nvme \
        --rw=randwrite --bs=64k --iodepth=4 --size=160M --io_size=320M --norandommap --verify=crc32c \
        --dataplacement=fdp --plids=0,1
    fio --name=second --filename="/dev/ng${1#/dev/nvme}" --ioengine=io_uring_cmd --cmd_type=nvme \
        --rw=randwrite --bs=4k --iodepth=4 --size=8M --verify=crc32c --dataplacement=fdp
}

# Newer kernels know the identifiers as write streams.
kernel_streams() {
    local queue=/sys/block/${1#/dev/}/queue
    [[ -e $queue/max_write_streams ]] || { echo "no write streams in $(uname -r)" && return 0; }
    equal streams "$(cat "$queue/max_write_streams")" 4
    equal granularity "$(cat "$queue/write_stream_granularity")" $((unit * 4096))
}

guest() {
    local library name disk
    for library in nvme nvme_cli zoned; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    # An emulated guest may be slow.
    attach placed --keep-alive-tmo=60
    modprobe nvme
    until_true 60 disk_of drive
    for name in placed drive; do
        disk=$(disk_of "$name")
        check "$name: configuration, usage, feature" configuration "$disk"
        check "$name: writes go to the unit of their identifier" placement "$disk"
        check "$name: a handle is updated, and the event" update "$disk"
        check "$name: fio, with verification" verified "$disk"
        check "$name: write streams of the kernel" kernel_streams "$disk"
    done
    attach ordinary
    disk=$(disk_of ordinary)
    check "no placement identifiers on a drive without data placement" fails place "$disk" 0 1M
    check "nor are there log pages" refused nvme fdp stats "$disk" --endgrp-id=1
}
