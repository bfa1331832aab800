# A QEMU with devices that older ones lack (11.1 or newer, of Debian's sid), and its libraries, in the
# cache; nothing is installed. Sourced by suites; needs lib/packages.sh.
# shellcheck shell=bash

# use_new_qemu: fetches it, unless it is there, and lets `run` boot the guest with it.
use_new_qemu() {
    local place=${cache:?}/qemu package said
    if [[ ! -d $place ]]; then
        echo "fetching QEMU"
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
}

# share_memory: the guest's memory is a file, which programs on this side can map.
share_memory() {
    # shellcheck disable=SC2054
    qemu_options+=(-object "memory-backend-memfd,id=ram,size=${memory:?}M,share=on"
        -machine q35,memory-backend=ram)
}
