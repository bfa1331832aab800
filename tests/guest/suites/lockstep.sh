# The same bios through the guest's kernel and through the block layer, compared (tests/lockstep): over vhost-user,
# NVMe/TCP and vfio-user, with losses of power, and, where the kernel has it, with QD=1. With LOCKSTEP_SEED and
# LOCKSTEP_CASES another script.
# shellcheck shell=bash

before() {
    local library
    for library in packages qemu lockstep; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    ((${limit:?} >= 7200)) || limit=7200
    use_new_qemu
    share_memory
    add_lockstep lockstep 0x10
    add_lockstep lockstep_qd1 0x11
    add_lockstep lockstep_power 0x12 --write-cache 16M
    add_lockstep lockstep_power_qd1 0x13 --write-cache 16M
    add_lockstep_tcp lockstep_tcp
    add_lockstep_pci lockstep_pci
    seed=${LOCKSTEP_SEED:-1} cases=${LOCKSTEP_CASES:-120}
    give seed "$seed"
    give cases "$cases"
}

# cases_of NAME: fewer for losses of power, of which there is one kind.
cases_of() {
    case $1 in
    *_power*) echo "$(((cases + 2) / 3))" ;;
    *) echo "$cases" ;;
    esac
}

# compared WHAT NAME OPTION...: what the guest did, if it did.
compared() {
    [[ ! -e ${out:?}/$2.results ]] ||
        check_after "$1: the layer does what the kernel does" same "$2" "$seed" "$(cases_of "$2")" "${@:3}"
}

after() {
    compared "plugging" lockstep
    compared "losses of power" lockstep_power --power
    compared "vfio-user" lockstep_pci --export nvme-pci
    compared "NVMe/TCP" lockstep_tcp --export nvme-tcp
    compared "QD=1" lockstep_qd1 --qd1
    compared "QD=1, losses of power" lockstep_power_qd1 --qd1 --power
}

# submitted WHAT NAME DISK OPTION...
submitted() {
    check "$1: bios submitted" lockstep "$2" "$3" "${seed:?}" "$(cases_of "$2")" "${@:4}"
}

guest() {
    local library
    for library in virtio nvme lockstep; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    load_nvme_for_lockstep
    modprobe nvme
    check "vfio-user: the driver finds the drive" until_true 60 disk_of lockstep_pci
    check "NVMe/TCP: attach" attach_lockstep lockstep_tcp
    submitted "losses of power" lockstep_power "$(virtio_disk_of lockstep_power)" --power
    submitted "vfio-user" lockstep_pci "$(disk_of lockstep_pci)" --export nvme-pci
    submitted "plugging" lockstep "$(virtio_disk_of lockstep)"
    submitted "NVMe/TCP" lockstep_tcp "$(disk_of lockstep_tcp)" --export nvme-tcp
    if has_qd1; then
        submitted "QD=1, losses of power" lockstep_power_qd1 "$(virtio_disk_of lockstep_power_qd1)" --qd1 --power
        submitted "QD=1" lockstep_qd1 "$(virtio_disk_of lockstep_qd1)" --qd1
    else
        skip "QD=1" "the kernel has none"
    fi
}
