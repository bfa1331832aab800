# Drives on the PCIe bus of the guest, by vfio-user: with zones and without, resets under load, of the
# guest too, and a server that is killed.
# shellcheck shell=bash

before() {
    local library
    for library in packages qemu; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    use_new_qemu
    share_memory
    let_reset
    add_drive drive null:zones=128,zone_size=8M,zone_capacity=6M,lba=4096,max_open=8,max_active=16,memory=true \
        null:zoned=false,size=1G,lba=4096,memory=true --io-queues 2
    add_drive timed zns-1t:zones=16,memory=true
}

# The guest's own driver finds them.
found() {
    modprobe nvme
    until_true 60 disk_of "$1"
    until_true 60 disk_of "$1" 2
    until_true 60 disk_of timed
    equal transport "$(cat "/sys/class/nvme/$2/transport")" pcie
    equal model "$(of nvme list ".Devices[] | select(.DevicePath == \"$(disk_of timed)\") | .ModelNumber")" \
        "Zonal zns"
}

# Both processors have queues of their own, and get interrupts.
interrupts() {
    local queue
    for queue in 1 2; do
        taskset -c "$((queue - 1))" dd if="$1" of=/dev/null bs=4k count=8 iflag=direct
        awk -v "name=$2q$queue" '$NF == name { for (i = 2; i <= 3; i++) sum += $i } END { exit sum == 0 }' \
            /proc/interrupts
    done
}

# Any file system, on a namespace without zones.
xfs_files() {
    modprobe xfs
    mkfs.xfs -f "$1"
    files_stay xfs "$1"
}

# Read by commands of the guest, past the block layer.
passthrough() {
    fio --name=commands --filename="/dev/ng${1#/dev/nvme}" --ioengine=io_uring_cmd --cmd_type=nvme \
        --rw=randread --bs=4k --iodepth=8 --size=1M --io_size=4M
}

# A function level reset, as a driver in user space does it; the kernel's driver begins anew.
function_reset() {
    local function
    function=$(readlink -f "/sys/class/nvme/$1/device")
    grep flr "$function/reset_method"
    echo 1 >"$function/reset"
    until_true 60 is_in_state "$1" live
}

# The driver leaves the function, and comes back.
bind_again() {
    local function
    function=$(readlink -f "/sys/class/nvme/$1/device")
    echo "${function##*/}" >/sys/bus/pci/drivers/nvme/unbind
    fails disk_of drive
    echo "${function##*/}" >/sys/bus/pci/drivers/nvme/bind
    until_true 60 disk_of drive
    write_and_read "$(disk_of drive)"
}

# I/O to the drive of a server that was killed fails, the guest and its other drive go on.
server_is_lost() {
    local disk
    disk=$(disk_of timed)
    dd if="$disk" of=/dev/null bs=4k count=1 iflag=direct
    ask kill timed
    fails timeout 200 dd if="$disk" of=/dev/null bs=4k count=1 iflag=direct
    write_and_read "$1"
    # For whoever comes next.
    ask start_at timed
}

# Data that are to be there after the guest has restarted.
leave_data() {
    write_and_read "$1"
    dd if=/tmp/data of="$2" bs=64k oflag=direct
    cp /tmp/data /root/left
}
data_are_there() {
    local disk
    for disk in "$@"; do
        dd if="$disk" of=/tmp/read bs=128k count=8 iflag=direct
        cmp /root/left /tmp/read
    done
}

# under_way DISK RW OFFSET: I/O until the guest ends.
under_way() {
    fio --name=under_way --filename="$1" --rw="$2" --offset="$3" --direct=1 --ioengine=libaio \
        --iodepth=16 --bs=16k --size=1M --time_based --runtime=1000 &>/dev/null &
}

after_restart() {
    local controller disk plain
    check "restart: the drives are there" until_true 60 disk_of drive 2
    controller=$(controller_of drive)
    controller=${controller##*/}
    disk=$(disk_of drive)
    plain=$(disk_of drive 2)
    check "restart: the driver finds what it found" found drive "$controller"
    check "restart: so are the data" data_are_there "$disk" "$plain"
    check "restart: a queue and an interrupt for each processor" interrupts "$disk" "$controller"
    check "restart: data are read back, a misplaced write fails" write_and_read "$disk"
    check "restart: fio, with verification" fio_verify "$disk" 8m
    check "restart: the controller is reset under load" with_readers "$disk" reset_controller "$controller"
    check "a server is lost" server_is_lost "$disk"
}

guest() {
    local library disk plain controller
    for library in nvme nvme_cli zoned filesystems; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    modprobe nvme
    if ((${boot:?} > 1)); then
        after_restart
        return
    fi
    until_true 60 disk_of drive
    controller=$(controller_of drive)
    controller=${controller##*/}
    check "the driver finds the drives" found drive "$controller"
    disk=$(disk_of drive)
    plain=$(disk_of drive 2)
    check "zones as served" zones_as_served "$disk" 128 16384 8 16
    check "Identify" identify "$disk" 128 2048 8 16
    check "nvme zns: report, open, append, close, finish, reset" cli_zones "$disk" 128 2048
    check "Compare, Verify, Write Zeroes, Dataset Management, Flush" cli_commands "$disk"
    check "data are read back, a misplaced write fails" write_and_read "$disk"
    check "zone actions" zone_actions "$disk"
    check "limit of open zones" open_limit "$disk"
    check "a queue and an interrupt for each processor" interrupts "$disk" "$controller"
    check "fio, in order, with verification" fio_verify "$disk" 24m
    check "fio, with commands of its own" passthrough "$disk"
    check "fio on a model, with its latencies" fio_verify "$(disk_of timed)" 8m
    check "zonefs: files after a remount" zonefs_files "$disk"
    check "btrfs: files after a remount" btrfs_files "$disk"
    check "discard" discard "$plain"
    check "f2fs: files after a remount" f2fs_files "$disk" "$plain"
    check "XFS: files after a remount" xfs_files "$plain"
    check "the controller is reset under load" with_readers "$disk" reset_controller "$controller"
    check "the function is reset under load" with_readers "$disk" function_reset "$controller"
    check "the driver is unbound and bound" bind_again "$controller"
    check "data stay" leave_data "$(disk_of drive)" "$(disk_of drive 2)"
    under_way "$(disk_of drive)" randread 0
    under_way "$(disk_of drive 2)" randwrite 64M
    sleep 3
    restart
}
