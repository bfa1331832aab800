# File systems on zoned block devices in the guest. Sourced by suites.
# shellcheck shell=bash

# files_stay TYPE DISK: files have their contents after a remount, and removed files are gone.
files_stay() {
    local type=$1 disk=$2 place=/mnt/$1
    mkdir -p "$place"
    mount -t "$type" "$disk" "$place"
    cp -r /usr/lib/x86_64-linux-gnu/gconv "$place/a"
    (cd "$place/a" && find . -type f -exec sha256sum {} + >/tmp/sums)
    dd if=/dev/urandom of="$place/b" bs=1M count=8
    rm "$place"/a/I*
    cp "$place/b" /tmp/b
    sync
    umount "$place"
    mount -t "$type" "$disk" "$place"
    cmp /tmp/b "$place/b"
    (cd "$place/a" && grep -v ' ./I' /tmp/sums | sha256sum --check --quiet -)
    fails ls "$place/a/IBM037.so"
    umount "$place"
}

btrfs_files() {
    modprobe btrfs
    blkzone reset "$1"
    mkfs.btrfs --force --metadata single --data single "$1"
    files_stay btrfs "$1"
    btrfs check "$1"
}

# f2fs_files ZONED CONVENTIONAL: the second holds what f2fs does not write sequentially.
f2fs_files() {
    modprobe f2fs
    blkzone reset "$1"
    mkfs.f2fs -f -m -c "$1" "$2"
    files_stay f2fs "$2"
}

# A zone is a file.
zonefs_files() {
    modprobe zonefs
    blkzone reset "$1"
    mkzonefs -f "$1"
    mkdir -p /mnt/zonefs
    mount -t zonefs "$1" /mnt/zonefs
    # All zones but the first, where the superblock is.
    equal files "$(find /mnt/zonefs -type f | wc -l)" "$(($(attribute "$1" nr_zones) - 1))"
    dd if=/dev/urandom of=/tmp/data bs=64k count=16
    dd if=/tmp/data of=/mnt/zonefs/seq/3 bs=64k oflag=direct conv=notrunc
    fails dd if=/tmp/data of=/mnt/zonefs/seq/3 bs=64k count=1 oflag=direct conv=notrunc
    umount /mnt/zonefs
    mount -t zonefs "$1" /mnt/zonefs
    cmp /tmp/data /mnt/zonefs/seq/3
    truncate -s 0 /mnt/zonefs/seq/3
    equal "size" "$(stat -c %s /mnt/zonefs/seq/3)" 0
    umount /mnt/zonefs
}
