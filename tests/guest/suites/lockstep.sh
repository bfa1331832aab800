# The same bios through the guest's kernel and through the block layer, compared (tests/lockstep). With
# LOCKSTEP_SEED and LOCKSTEP_CASES another script; over NVMe/TCP, too, and with a kernel of QD=1 a script with it.
# shellcheck shell=bash

before() {
    local library
    for library in packages qemu lockstep; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    use_new_qemu
    share_memory
    add_lockstep lockstep 0x10
    add_lockstep lockstep_qd1 0x11
    add_lockstep_nvme lockstep_nvme
    seed=${LOCKSTEP_SEED:-1} cases=${LOCKSTEP_CASES:-120}
    give seed "$seed"
    give cases "$cases"
}

after() {
    check_after "plugging: the layer does what the kernel does" same lockstep "$seed" "$cases"
    check_after "NVMe/TCP: the layer does what the kernel does" same lockstep_nvme "$seed" "$cases" --export nvme
    [[ ! -e ${out:?}/lockstep_qd1.results ]] ||
        check_after "QD=1: the layer does what the kernel does" same lockstep_qd1 "$seed" "$cases" --qd1
}

guest() {
    local library
    for library in virtio nvme lockstep; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    check "plugging: bios submitted" lockstep lockstep "$(virtio_disk_of lockstep)" "${seed:?}" "${cases:?}"
    check "NVMe/TCP: attach" attach_lockstep lockstep_nvme
    check "NVMe/TCP: bios submitted" lockstep lockstep_nvme "$(disk_of lockstep_nvme)" "$seed" "$cases" --export nvme
    if has_qd1; then
        check "QD=1: bios submitted" lockstep lockstep_qd1 "$(virtio_disk_of lockstep_qd1)" "$seed" "$cases" --qd1
    else
        skip "QD=1" "the kernel has none"
    fi
}
