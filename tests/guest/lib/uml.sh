# Kernels of user-mode Linux: built from Debian's sources, and booted as processes of this machine. Sourced by hunt.
# shellcheck shell=bash

# The release that has the sources of a kernel.
release_of() {
    case $1 in
    6.1) echo bookworm ;;
    7) echo trixie-backports ;;
    *) echo trixie ;;
    esac
}

# fetch_kernel_source KERNEL: the newest sources of that series into $cache/uml-KERNEL/source.
fetch_kernel_source() {
    local place=${cache:?}/uml-$1 release package
    [[ ! -d $place/source ]] || return 0
    release=$(release_of "$1")
    rm -rf "${archives:?}" "$place"
    mkdir -p "$archives" "$place/source.new"
    update "$release"
    package=$(own_apt apt-cache "$release" pkgnames "linux-source-$1" | grep -x -E "linux-source-$1(\.[0-9]+)?" |
        sort --version-sort | tail -n 1) || unusable "$release has no sources of Linux $1"
    (cd "$archives" && own_apt apt-get "$release" download --quiet=2 "$package") ||
        unusable "apt-get cannot fetch $package"
    dpkg-deb --fsys-tarfile "$archives/$package"_*.deb | tar -x -O "./usr/src/$package.tar.xz" |
        tar -x -J -C "$place/source.new" --strip-components 1
    rm -rf "$archives"
    mv "$place/source.new" "$place/source"
}

# build_kernel KERNEL: $linux is the program.
build_kernel() {
    local place=${cache:?}/uml-$1 build
    build=$place/build
    fetch_kernel_source "$1"
    # shellcheck disable=SC2034
    linux=$build/linux
    cat uml/* | cmp -s - "$build/done" && [[ -x $linux ]] && return
    echo "building Linux $1 in $build"
    change_sources "$place/source"
    make_kernel "$place/source" "$build" >"$build.log" 2>&1 || unusable "Linux $1 cannot be built: $build.log"
    cat uml/* >"$build/done"
}

# change_sources DIR: what uml/*.sed say, of the file in their first line. In place, for copies that are links.
change_sources() {
    local change file
    for change in uml/*.sed; do
        file=$1/$(sed -n '1s/^# Of \(.*\.c\)\. .*/\1/p' "$change")
        [[ -e $file.orig ]] || cp "$file" "$file.orig"
        sed -E -f "$change" "$file.orig" >"$file"
    done
}

# build_without KERNEL FIX: the same without what fixes/FIX.sed takes back, from the file in its first line.
build_without() {
    local place=${cache:?}/uml-$1 fix=$2 copy=${cache:?}/uml-$1/without file
    build_kernel "$1"
    linux=$place/linux-$fix-$(cat uml/* "fixes/$fix.sed" | sha256sum | head -c 8)
    [[ ! -x $linux ]] || return 0
    echo "building Linux $1 without $fix in $copy"
    copy_kernel "$place" "$copy"
    file=$(sed -n '1s/^# //p' "fixes/$fix.sed")
    sed -E -i -f "fixes/$fix.sed" "$copy/source/$file"
    ! cmp -s "$place/source/$file" "$copy/source/$file" || unusable "fixes/$fix.sed changes nothing in Linux $1"
    echo "$file" >"$copy/changed"
    make_kernel "$copy/source" "$copy/build" >"$copy/log" 2>&1 ||
        unusable "Linux $1 without $fix cannot be built: $copy/log"
    mv "$copy/build/linux" "$linux"
}

# copy_kernel FROM TO: the sources, without what a build before has changed in them, and what is built of them.
copy_kernel() {
    if [[ -e $2/copied ]]; then
        [[ ! -e $2/changed ]] || cp --remove-destination "$1/source/$(<"$2/changed")" "$2/source/$(<"$2/changed")"
        return
    fi
    rm -rf "$2"
    mkdir "$2"
    cp -a --link "$1/source" "$2/source"
    cp -a "$1/build" "$2/build"
    # make compares commands, which name the folder of the sources: with the new name nothing is compiled again.
    find "$2/build" -name '.*.cmd' -exec sed -i "s|$1/source/|$2/source/|g" {} +
    touch "$2/copied"
}

make_kernel() {
    mkdir -p "$2"
    make -C "$1" ARCH=um O="$2" KCONFIG_ALLCONFIG="$PWD/uml/kernel.config" allnoconfig &&
        make -C "$1" ARCH=um O="$2" --jobs="$(nproc)" linux
}

# uml MODE WORD...: becomes the kernel $linux, whose first program is lib/uml_init. Its devices and variables are the
# words; $work, with lib/, is its /job. It may take $seconds, if there is a limit.
uml() {
    local mode=$1
    shift
    exec ${seconds:+timeout --signal KILL "$seconds"} "$linux" mem="${memory:?}M" rootfstype=hostfs rootflags="${root:?}" ro \
        con=null con0=null,fd:1 quiet panic=1 MODE="$mode" JOB="${work:?}" init=/usr/bin/bash "$@" \
        -- -c "\"busybox mount -t hostfs none /job -o $work && exec bash /job/lib/uml_init\"" </dev/null
}

# serve_here DIR SPEC OPTION...: serves a device at DIR/socket, by the process $server, until end_server.
serve_here() {
    local here=$1
    shift
    : >"$here/ready"
    "${zonal:?}" serve "$@" --vhost-user "$here/socket" >"$here/ready" 2>"$here/server.log" &
    server=$!
    for _ in {1..1000}; do
        [[ ! -s $here/ready ]] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.01
    done
    cat "$here/server.log" >&2
    return 2
}

end_server() {
    kill "${server:?}" 2>/dev/null || true
    wait "$server" || true
    server=
}

# take_kernel: $slot is a folder for a kernel that no other check uses, of one that runs or of none.
take_kernel() {
    local number
    for number in {1..1024}; do
        slot=${work:?}/kernel.$number
        mkdir -p "$slot"
        exec {held}>>"$slot/lock"
        ! flock --nonblock "$held" || break
        exec {held}>&-
    done
    # The check before was killed while it asked, or its kernel has done its part.
    if [[ -e $slot/asked || $(cat "$slot/mounted" 2>/dev/null || echo 0) -ge ${per_kernel:?} ]]; then
        end_kernel
    fi
}

# stay_on_processor: this process and what it starts run on one processor, that of $slot. User-mode Linux stops one
# process and wakes another for each system call, and asks its server for each I/O: between two processors that takes
# twice as long.
stay_on_processor() {
    local -a allowed
    mapfile -t allowed < <(taskset --cpu-list --pid $$ | sed 's/.*: //' | tr , '\n' |
        while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)
    taskset --cpu-list --pid "${allowed[(${slot##*.} - 1) % ${#allowed[@]}]}" $$ >/dev/null
}

# boot_kernel: one in $slot, unless there is one. Fails if it does not come up.
boot_kernel() {
    local states answers
    [[ ! -e $slot/pid ]] || return 0
    rm -f "$slot"/{states,answers}
    mkfifo "$slot"/{states,answers}
    # With descriptions of their own: the kernel does not let those that it has block.
    exec {states}<>"$slot/states" {answers}<>"$slot/answers"
    (
        exec {held}>&-
        # Not in the process group of the check, of which nothing may be left.
        # shellcheck disable=SC2016 # of another shell
        exec setsid --fork bash -c 'source lib/uml.sh && echo "$$" >"$1/pid" && uml states "con1=fd:$2,fd:$3"' - \
            "$slot" "$states" "$answers"
    ) >"$slot/console" 2>&1
    exec {states}>&- {answers}>&-
    echo 0 >"$slot/mounted"
    answered up
}

end_kernel() {
    # Its processes die with it.
    [[ ! -e $slot/pid ]] || kill -KILL "$(<"$slot/pid")" 2>/dev/null || true
    rm -f "$slot"/{pid,asked,mounted}
}

# ask_kernel NAME: the kernel in $slot judges the state of /job/NAME. Fails if it does not answer.
ask_kernel() {
    : >"$slot/asked"
    boot_kernel || return
    echo "$1" 1<>"$slot/states"
    answered "$1" || return
    rm "$slot/asked"
    echo $(($(<"$slot/mounted") + 1)) >"$slot/mounted"
}

# answered TEXT: what the kernel in $slot says next. Seconds are counted one by one, as all processes of a machine may be
# stopped for a while.
answered() {
    local answers answer=
    exec {answers}<>"$slot/answers"
    for _ in {1..300}; do
        ! read -r -t 1 -u "$answers" answer || break
        [[ ! -e $slot/pid ]] || kill -0 "$(<"$slot/pid")" 2>/dev/null || break
    done
    exec {answers}>&-
    [[ $answer == "$1" ]]
}
