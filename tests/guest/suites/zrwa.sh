# A Linux guest uses what a zoned namespace can have besides: random write areas and zone descriptor
# extensions, by nvme-cli.
# shellcheck shell=bash

before() {
    serve areas zns:zones=16,zone_size=4M,zone_capacity=4M,lba=4096,max_open=8,max_active=8,memory=true,zrwa=64K,zrwa_granularity=16K,max_zrwa=2,descriptor_extension=64
}

# write_blocks DISK SLBA COUNT
write_blocks() {
    nvme write "$1" --start-block="$2" --block-count="$(($3 - 1))" --data-size="$(($3 * 4096))" --data=/tmp/data
}

identifies() {
    equal ozcs "$(($(of nvme zns id-ns "$1" .ozcs) & 2))" 2
    equal numzrwa "$(of nvme zns id-ns "$1" .numzrwa)" 1
    equal zrwasz "$(of nvme zns id-ns "$1" .zrwasz)" 16
    equal zrwafg "$(of nvme zns id-ns "$1" .zrwafg)" 4
    equal zdes "$(of nvme zns id-ns "$1" '.lbafe[0].zdes')" 1
}

# Writes inside the area come in any order and again; a flush moves the write pointer.
area() {
    head --bytes 65536 /dev/urandom >/tmp/data
    nvme zns open-zone "$1" --start-lba=0 --zrwaa
    write_blocks "$1" 8 4
    write_blocks "$1" 0 4
    write_blocks "$1" 8 4
    equal "write pointer" "$(state "$1" 0)" "EXP_OPENED:0"
    nvme zns zrwa-flush-zone "$1" --lba=3
    equal "write pointer" "$(state "$1" 0)" "EXP_OPENED:4"
    refused write_blocks "$1" 0 4
    write_blocks "$1" 20 4
    equal "implicit flush" "$(state "$1" 0)" "EXP_OPENED:8"
}

areas_are_limited() {
    nvme zns open-zone "$1" --start-lba=1024 --zrwaa
    refused nvme zns open-zone "$1" --start-lba=2048 --zrwaa
    nvme zns reset-zone "$1" --start-lba=1024
    nvme zns open-zone "$1" --start-lba=2048 --zrwaa
    nvme zns reset-zone "$1" --start-lba=2048
}

extension() {
    head --bytes 64 /dev/urandom >/tmp/extension
    nvme zns set-zone-desc "$1" --start-lba=3072 --data=/tmp/extension
    equal state "$(state "$1" 3072)" "CLOSED:0"
    nvme zns report-zones "$1" --start-lba=3072 --descs=1 --extended --verbose >/tmp/extended
    cat /tmp/extended
    # A dump of bytes in hexadecimal, sixteen a line.
    equal extension "$(grep -A 5 -i 'Extension Data' /tmp/extended |
        grep -o -E '^[0-9a-f]{4}: .*' | cut -d ' ' -f 2-17 | head -n 4 | xargs)" \
        "$(od --address-radix=n --format=x1 /tmp/extension | xargs)"
}

guest() {
    local library disk
    for library in nvme nvme_cli zoned; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    check "attach" attach areas
    disk=$(disk_of areas)
    check "the namespace says what it has" identifies "$disk"
    check "a random write area is written in any order and flushed" area "$disk"
    check "random write areas are limited" areas_are_limited "$disk"
    check "a zone descriptor extension" extension "$disk"
    check "detach" detach areas
}
