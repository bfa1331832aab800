# A QEMU with devices that older ones lack (11.1 or newer, of Debian's sid), and its libraries, in the
# cache; nothing is installed. Sourced by suites; needs lib/packages.sh.
# shellcheck shell=bash

# use_new_qemu: fetches it, unless it is there, and lets `run` boot the guest with it.
use_new_qemu() {
    local place=${cache:?}/qemu package said
    if [[ ! -d $place ]]; then
        echo "fetching QEMU 11.1 or newer, of Debian's sid, from $(mirror)"
        rm -rf "$place.new"
        mkdir -p "$place.new"
        fetch sid qemu-system-x86
        for package in "${archives:?}"/*.deb; do
            dpkg-deb -x "$package" "$place.new"
        done
        rm -rf "$archives"
        mv "$place.new" "$place"
    fi
    qemu=("$place/usr/lib64/ld-linux-x86-64.so.2" --library-path "$place/usr/lib/x86_64-linux-gnu"
        "$place/usr/bin/qemu-system-x86_64" -L "$place/usr/share/seabios" -L "$place/usr/share/qemu")
    # Where it would look for its own parts does not exist here.
    export QEMU_MODULE_DIR=$place/usr/lib/x86_64-linux-gnu/qemu
    said=$("${qemu[@]}" --version) || unusable "$place: this QEMU does not start"
    echo "${said%%$'\n'*}"
    if ! [[ $said =~ version\ ([0-9]+)\.([0-9]+) ]] || ((BASH_REMATCH[1] * 100 + BASH_REMATCH[2] < 1101)); then
        unusable "$place: found this QEMU, expected 11.1 or newer: a mirror with a newer sid has it"
    fi
}

# share_memory: the guest's memory is a file, which programs on this side can map.
share_memory() {
    # shellcheck disable=SC2054
    qemu_options+=(-object "memory-backend-memfd,id=ram,size=${memory:?}M,share=on"
        -machine q35,memory-backend=ram)
}

# let_reset: the guest may `restart` (lib/guest.sh).
let_reset() {
    mkfifo "${work:?}/qmp.in" "$work/qmp.out"
    # QEMU opens both; nobody reads the few answers.
    exec {qmp}<>"$work/qmp.in"
    qemu_options+=(-chardev "pipe,id=qmp,path=$work/qmp" -qmp chardev:qmp)
}

# reset: of the machine, a second later, when the guest has its answer.
on_reset() {
    (
        sleep 1
        echo '{"execute": "qmp_capabilities"}'
        # Without it QEMU ends instead, as it is to when the guest's kernel panics.
        echo '{"execute": "set-action", "arguments": {"reboot": "reset"}}'
        echo '{"execute": "system_reset"}'
    ) >&"$qmp" &
}

# was_reset: the guest is there again. Not before, for the firmware resets the machine once more.
on_was_reset() {
    echo '{"execute": "set-action", "arguments": {"reboot": "shutdown"}}' >&"$qmp"
}

# add_drive NAME SPEC... OPTION...: a drive of the guest, nqn.2026-11.org.example:NAME.
add_drive() {
    serve_at --vfio-user "$@" --nqn "nqn.2026-11.org.example:$1" --serial "$1"
    qemu_options+=(-device "{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"${work:?}/$1.sock\"}}")
}

# QEMU's vhost-user-blk-pci hides zones from the guest; this device, with two queues, hides nothing.
# shellcheck disable=SC2034
zoned_disk=vhost-user-test-device-pci,virtio-id=2,num_vqs=2,vq_size=128,config_size=96

# add_disk DEVICE SLOT OPTIONS NAME SPEC: a disk of the guest with two queues, after those that the guest
# boots from; the name is its serial number.
add_disk() {
    local device=$1 slot=$2 chardev=$3 name=$4 spec=$5
    serve_at --vhost-user "$name" "$spec" --serial "$name" --vhost-user-queues 2
    qemu_options+=(-chardev "socket,id=$name,path=${work:?}/$name.sock$chardev"
        -device "$device,chardev=$name,addr=$slot")
}
