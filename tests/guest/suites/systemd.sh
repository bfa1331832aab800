# The packaged services, with systemd as the first process of a container in the guest, whose root is the guest's. The
# package is installed over the services of 0.2.0 while two of them serve disks to the guest's kernel, then over
# itself, then on a system that had neither.
# shellcheck shell=bash

before() {
    local file
    # Emulated processors take turns, so that a second one only makes the first wait.
    # shellcheck disable=SC2034
    [[ ${accel:?} != tcg ]] || cpus=1
    for file in packages programs; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$file.sh"
    done
    for file in strip dpkg-shlibdeps; do
        command -v "$file" >/dev/null || unusable "missing: $file (Debian's binutils, dpkg-dev)"
    done
    # What scripts of packages need, and the names of dynamic users.
    fetch_programs system trixie dash libc-bin libnss-systemd
    ZONAL_PACKAGE_PROGRAM=${zonal:?} "$here/../../packaging/build" "${work:?}/packages" >/dev/null
    mv "$work"/packages/zonal_*.deb "${job:?}/new.deb"
    package_of_0_2_0
}

# The same program with the services of 0.2.0: a dynamic user, one directory for all of them, and no group.
package_of_0_2_0() {
    local tree=$work/0.2.0 unit
    dpkg-deb -R "$job/new.deb" "$tree"
    unit=$tree/usr/lib/systemd/system/zonal
    sed -i -e 's/^User=zonal$/DynamicUser=yes/' -e '/^StateDirectoryMode=/d' -e 's/ --ctl-group zonal//' \
        -e '/Directory=/s/zonal-ublk/zonal/' "$unit@.service" "$unit-ublk@.service"
    grep -q '^DynamicUser=yes$' "$unit@.service" || unusable "found a unit without User=zonal"
    rm -r "$tree/usr/lib/sysusers.d" "$tree/DEBIAN/postinst"
    sed -i 's/^Version: .*/&~old/' "$tree/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone --build "$tree" "$job/old.deb" >/dev/null
}

# What the installer of Debian makes.
complete_root() {
    cp -a /job/system/usr/. /usr/
    printf '%s: files systemd\n' passwd group >/etc/nsswitch.conf
    echo 0123456789abcdef0123456789abcdef >/etc/machine-id
    # An emulated processor starts the rest of a system, and its journal, in minutes, and runs all generators at each
    # reload. Services write to the kernel's log.
    rm /usr/lib/systemd/system/*.target.wants/* /usr/lib/systemd/system-generators/*
    printf '[Manager]\nShowStatus=no\nDefaultStandardOutput=kmsg\nDefaultStandardError=kmsg\n' >/etc/systemd/system.conf
    touch /var/lib/dpkg/status
    mkdir -p /etc/zonal
    useradd member
    useradd other
}

# Starts systemd. It has mounts and processes of its own; files, users and the network are the guest's.
start_systemd() {
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --cgroup --ipc bash -c '
        mount -t proc proc /proc
        mount -t tmpfs run /run
        mount -t cgroup2 cgroup /sys/fs/cgroup
        exec env -i container=other PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --unit=basic.target
    ' </dev/null >/out/systemd.log 2>&1 &
    echo $! >/tmp/unshare
    until_true 300 is_started
}
is_started() {
    [[ $(within systemctl is-system-running) == running ]]
}

# within COMMAND...: where systemd is.
within() {
    local process
    process=$(pgrep --parent "$(cat /tmp/unshare)")
    nsenter --target "$process" --mount --pid --cgroup --ipc "$@"
}

# as USER COMMAND...
as() {
    within setpriv --reuid "$1" --regid "$1" --init-groups "${@:2}"
}

# install PACKAGE: what it depends on is there, but dpkg does not know.
install() {
    within dpkg --force-depends --install "/job/$1.deb"
}

# configure NAME DEVICE OPTIONS
configure() {
    printf 'DEVICE=%s\nOPTIONS=%s\n' "$2" "$3" >"/etc/zonal/$1.conf"
}

# create USER IMAGE
create() {
    as "$1" zonal image create "$2" --profile null --zones 16 --zone-size 1M
}

# process_of UNIT
process_of() {
    within systemctl show --property MainPID --value "$1"
}

# written NAME DISK: writes a megabyte of its own.
written() {
    head -c 1M /dev/urandom >"/tmp/$1.data"
    blkzone reset "$2"
    dd if="/tmp/$1.data" of="$2" bs=64k oflag=direct conv=fsync
}

# kept NAME DISK: the megabyte can be read.
kept() {
    dd if="$2" bs=64k count=16 iflag=direct status=none | cmp - "/tmp/$1.data"
}

both_kept() {
    kept a "$(disk_of a)"
    kept b "$(disk_of b)"
}

old_services_serve() {
    local name
    install old
    mkdir /var/lib/zonal
    for name in a b; do
        configure "$name" "/var/lib/zonal/$name.img" "--nvme-tcp $address:$(port_of "$name") --nqn $(nqn_of "$name")"
        create root "/var/lib/zonal/$name.img"
    done
    within systemctl start zonal@a zonal@b
    for name in a b; do
        # The keep-alive timeout is for an emulated processor that stalls.
        attach "$name" --reconnect-delay 1 --keep-alive-tmo 120
        written "$name" "$(disk_of "$name")"
    done
    both_kept
    equal "the directory" "$(readlink /var/lib/zonal)" private/zonal
}

# Files and sockets of the services belong to the user zonal, and nobody else reads images.
owned_by_zonal() {
    equal "the directory" "$(stat --format '%F %U %G %a' /var/lib/zonal)" "directory zonal zonal 700"
    equal "of others" "$(find /var/lib/zonal ! -user zonal -o ! -group zonal)" ""
    equal "the sockets" "$(within stat --format '%U %G %a' /run/zonal/{a,b}.ctl | uniq)" "zonal zonal 660"
}

# Its instances stop while their files get another owner. The kernel's I/O waits for them.
upgraded() {
    install new
    within systemctl is-active zonal@a zonal@b
    fails test -e /var/lib/private/zonal
    owned_by_zonal
    both_kept
}

restarted() {
    within systemctl restart zonal@a zonal@b
    owned_by_zonal
    both_kept
    written a "$(disk_of a)"
    written b "$(disk_of b)"
    both_kept
}

is_another_process() {
    local now
    now=$(process_of "$1")
    ((now > 0 && now != $2))
}

killed() {
    local process
    process=$(process_of zonal@a)
    within kill -KILL "$process"
    until_true 300 is_another_process zonal@a "$process"
    until_true 300 within systemctl is-active zonal@a
    owned_by_zonal
    both_kept
}

# controlled SOCKET: by root and members of the group, and by no one else.
controlled() {
    within zonal ctl "$1" status
    as member zonal ctl "$1" status
    fails as other zonal ctl "$1" status
}

both_controlled() {
    controlled /run/zonal/a.ctl
    controlled /run/zonal/b.ctl
}

# An upgrade from here on lets instances run.
upgraded_again() {
    local processes
    processes="$(process_of zonal@a) $(process_of zonal@b)"
    install new
    both_kept
    equal "the instances" "$(process_of zonal@a) $(process_of zonal@b)" "$processes"
    restarted
    both_controlled
}

ublk_serves() {
    within systemctl start zonal-ublk@c
    until_true 300 test -b /dev/ublkb0
    written c /dev/ublkb0
    controlled /run/zonal-ublk/c.ctl
    equal "its directory" "$(stat --format '%U %a' /var/lib/zonal-ublk)" "root 700"
    within systemctl restart zonal-ublk@c
    until_true 300 test -b /dev/ublkb0
    kept c /dev/ublkb0
    restarted
}

# Images of both kinds are made as docs/operating.md says.
new_system() {
    within systemctl stop zonal@a zonal@b
    within dpkg --purge zonal
    # The group stays, for it has a member.
    userdel zonal
    rm -r /var/lib/zonal
    install new
    create zonal /var/lib/zonal/a.img
    create zonal /var/lib/zonal/b.img
    within systemctl start zonal@a zonal@b
    owned_by_zonal
    both_controlled
}

guest() {
    # shellcheck source=/dev/null
    source /job/lib/nvme.sh
    # shellcheck disable=SC2034
    address=127.0.0.1 a_port=4461 b_port=4462
    complete_root
    check "systemd starts" start_systemd
    check "0.2.0: two instances serve the kernel" old_services_serve
    check "0.2.0: its package is replaced while the images are in use" upgraded
    check "restarts keep data and owners" restarted
    check "a killed instance is started again" killed
    usermod --append --groups zonal member
    check "members of the group use the control sockets, others do not" both_controlled
    check "the package is replaced while instances run" upgraded_again
    if modprobe ublk_drv; then
        create root /var/lib/zonal-ublk/c.img
        configure c /var/lib/zonal-ublk/c.img --ublk=0
        check "ublk: an instance beside them, as root" ublk_serves
        check "ublk: it stops" within systemctl stop zonal-ublk@c
    else
        skip "ublk: an instance beside them, as root" "the kernel has no ublk"
    fi
    check "NVMe/TCP: detach" detach a
    check "NVMe/TCP: detach" detach b
    check "a system that has had no package" new_system
}
