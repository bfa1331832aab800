# A disk that hands files to the guest. `before` calls hand_disk; the guest calls `ask hand FILE` and
# then `taken PATH`. Sourced by suites, on both sides.
# shellcheck shell=bash

# The disk: a block with the size of the file, and the file.
hand_disk() {
    truncate -s 256M "${work:?}/hand.img"
    qemu_options+=(-drive "file=$work/hand.img,format=raw,if=virtio")
}

# hand FILE: of the suite's results on this side.
on_hand() {
    local file=${out:?}/$1 size
    size=$(stat --format=%s "$file") && ((size < 255 << 20)) || return 1
    printf '%-4096s' "$size" | dd of="$work/hand.img" bs=4096 conv=notrunc status=none
    dd if="$file" of="$work/hand.img" bs=4096 seek=1 conv=notrunc status=none
}

# taken PATH: the file that was handed over, in the guest. Not through the guest's cache, which has
# what was there before.
taken() {
    local size
    size=$(dd if=/dev/vde bs=4096 count=1 iflag=direct status=none)
    dd if=/dev/vde bs=4096 skip=1 count=$(((size + 4095) / 4096)) iflag=direct status=none |
        head -c "$((size))" >"$1"
}
