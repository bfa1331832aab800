# A Linux host attaches a ZNS namespace over NVMe/TCP, reports, writes, reads and resets zones, and
# writes with fio and its verification. Sourced by tests/guest/run.
# shellcheck shell=bash disable=SC2034

# The digests' checksum is asked for by name, not by dependency.
modules_wanted=(nvme-tcp crc32c_generic)
programs_wanted=(blkzone fio dd)

before() {
    serve null:zones=32,zone_size=4M,zone_capacity=3M,lba=4096,max_open=8,max_active=12,memory=true \
        --nvme-tcp 127.0.0.1:0 --nqn nqn.2026-11.org.example:guest --verbose
}

guest_script() {
    local address=${ready#nvme-tcp://}
    local port=${address%%/*}
    echo "options=transport=tcp,traddr=10.0.2.2,trsvcid=${port##*:},nqn=${address#*/}"
    cat <<'GUEST'
options=$options,hostnqn=nqn.2026-11.org.example:linux,hostid=01234567-89ab-cdef-0123-456789abcdef
attach() {
    echo "$options,nr_io_queues=2$1" >/dev/nvme-fabrics
    for try in $(seq 100); do
        disk=$(ls /sys/block | grep -E '^nvme[0-9]+n[0-9]+$' | head -n 1)
        [ -n "$disk" ] && [ -e "/dev/$disk" ] && return
        sleep 0.1
    done
    echo "no namespace"
    exit 1
}
detach() {
    echo 1 >"$(echo /sys/class/nvme/nvme[0-9]*/delete_controller)"
    [ ! -e "$disk" ]
}
attach ""
cd "/sys/block/$disk"
echo "$disk: $(cat queue/zoned), $(cat queue/nr_zones) zones of $(cat queue/chunk_sectors) sectors," \
    "$(cat queue/max_open_zones) open, $(cat queue/max_active_zones) active," \
    "append $(cat queue/zone_append_max_bytes), $(cat queue/logical_block_size) B blocks"
[ "$(cat queue/zoned)" = host-managed ]
[ "$(cat queue/nr_zones)" = 32 ]
[ "$(cat queue/max_active_zones)" = 12 ]
cd /
disk=/dev/$disk

field() { # of the first zone
    blkzone report -c 1 "$disk" | sed -n "s/.*$1.\([0-9a-fx]*\).*/\1/p"
}
blkzone report -c 3 "$disk"
[ "$(blkzone report "$disk" | wc -l)" = 32 ]
dd if=/dev/urandom of=/tmp/data bs=64k count=16 2>/dev/null
dd if=/tmp/data of="$disk" bs=256k oflag=direct 2>/dev/null
dd if="$disk" of=/tmp/read bs=128k count=8 iflag=direct 2>/dev/null
cmp /tmp/data /tmp/read
blkzone report -c 1 "$disk"
[ "$(field wptr)" = 0x000800 ]
# A write that is not at the write pointer.
if dd if=/tmp/data of="$disk" bs=4k count=1 seek=9 oflag=direct 2>/dev/null; then
    echo "a misplaced write succeeded"
    exit 1
fi
blkzone finish -c 1 "$disk"
blkzone report -c 1 "$disk" | grep -q '(fu)'
blkzone open -o 8192 -c 1 "$disk"
blkzone report -o 8192 -c 1 "$disk" | grep -q '(oe)'
blkzone close -o 8192 -c 1 "$disk"
blkzone report -o 8192 -c 1 "$disk" | grep -q '(em)'
blkzone reset "$disk"
[ "$(blkzone report "$disk" | grep -c '(em)')" = 32 ]
fio --filename="$disk" --direct=1 --zonemode=zbd --ioengine=libaio --iodepth=16 --bs=4k,32k \
    --name=verify --rw=write --size=24m --bs=32k --verify=crc32c --do_verify=1 --max_open_zones=8 |
    grep -E 'err=|READ:|WRITE:'
fio --filename="$disk" --direct=1 --zonemode=zbd --ioengine=libaio --iodepth=32 --bs=4k \
    --name=random --rw=randwrite --size=96m --io_size=8m --max_open_zones=8 |
    grep -E 'err=|WRITE:'
detach
attach ,hdr_digest,data_digest
disk=/dev/$disk
blkzone reset "$disk"
dd if=/tmp/data of="$disk" bs=256k oflag=direct 2>/dev/null
dd if="$disk" of=/tmp/read bs=128k count=8 iflag=direct 2>/dev/null
cmp /tmp/data /tmp/read
echo "with digests: the same"
detach
GUEST
}
