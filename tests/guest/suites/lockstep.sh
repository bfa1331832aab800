# The same bios through the guest's kernel and through the block layer, compared (tests/lockstep). With
# LOCKSTEP_SEED and LOCKSTEP_CASES another script; with a kernel of QD=1 a script with it, too.
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
    seed=${LOCKSTEP_SEED:-1} cases=${LOCKSTEP_CASES:-112}
    give seed "$seed"
    give cases "$cases"
}

after() {
    check_after "plugging: the layer does what the kernel does" same lockstep "$seed" "$cases"
    [[ ! -e ${out:?}/lockstep_qd1.results ]] ||
        check_after "QD=1: the layer does what the kernel does" same lockstep_qd1 "$seed" "$cases" --qd1
}

guest() {
    local library
    for library in virtio lockstep; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    check "plugging: bios submitted" lockstep lockstep "${seed:?}" "${cases:?}"
    if has_qd1; then
        check "QD=1: bios submitted" lockstep lockstep_qd1 "$seed" "$cases" --qd1
    else
        skip "QD=1" "the kernel has none"
    fi
}
