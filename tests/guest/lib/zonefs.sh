# zonefs under the crash lab: workloads on its files, each of which is a sequential zone, and what a loss of power may
# leave of them. Sourced by hunt, which draws the workloads, and by lib/uml_init.
#
# A line of a workload is an operation: `append FILE BLOCKS` with one write, `append FILE BLOCKS pieces` with one for each
# block, `reset FILE`, `finish FILE`, or `fsync FILE`, after which comes the mark `WORKLOAD NUMBER`. All workloads are
# played on the same files, one after the other.
#
# After the fsync of a file it has its blocks, is empty again if it was reset, and stays full if it was finished. What was
# done since then is there up to any block of it, in the order in which it was done.
# shellcheck shell=bash

zonefs_files=6
zonefs_block=4096

# draw_zonefs DIR SEED COUNT: workloads, each of the seed after the one before.
draw_zonefs() {
    local seed number file changed
    for ((seed = $2; seed < $2 + $3; seed++)); do
        RANDOM=$seed
        changed=seq/0
        for ((number = 0; number < 12; number++)); do
            ((RANDOM % 2)) && file=$changed || file=seq/$((RANDOM % zonefs_files))
            case $((RANDOM % 10)) in
            [0-3]) echo "append $file $((RANDOM % 8 + 1))" ;;
            4) echo "append $file $((RANDOM % 8 + 1)) pieces" ;;
            5) echo "reset $file" ;;
            6) ((RANDOM % 2)) && echo "finish $file" || echo "append $file $((RANDOM % 64 + 1))" ;;
            *) echo "fsync $file" ;;
            esac
            changed=$file
        done >"$1/$(printf w%06d "$seed")"
    done
}

# Of each file: the most blocks it can have and how many it has, the blocks of its last fsync, which ends with `full` if
# the zone was finished, and what was done since.
declare -A most=() blocks=() kept=() later=()

# Files of a new file system, or of a state, whose sizes are in $sizes.
look_at_zonefs() {
    local file size sectors
    declare -gA sizes=()
    while read -r file size sectors; do
        sizes[$file]=$size
        most[$file]=$((sectors * 512 / zonefs_block))
        blocks[$file]=0
        kept[$file]=
        later[$file]=
    done < <(cd "${place:?}" && stat -c '%n %s %b' seq/*)
}

# done_to WORKLOAD NUMBER OPERATION FILE BLOCKS: takes it down. Fails if a zone cannot take it: the operation is left out.
done_to() {
    local tag=$1.$2 file=$4 count=${5-} number
    [[ -n ${most[$file]-} ]] || { echo "$1: operation $2: there is no $file" && exit 2; }
    case $3 in
    append)
        ((blocks[$file] + count <= most[$file])) || return 1
        for ((number = 0; number < count; number++)); do
            later[$file]+=" $tag.$number"
        done
        blocks[$file]=$((blocks[$file] + count))
        ;;
    reset)
        later[$file]+=" reset"
        blocks[$file]=0
        ;;
    finish)
        ((blocks[$file] < most[$file])) || return 1
        later[$file]+=" full"
        blocks[$file]=${most[$file]}
        ;;
    fsync) ;;
    *) echo "$1: operation $2: found \`$3\`, expected append, reset, finish or fsync" && exit 2 ;;
    esac
}

# What was done to a file cannot be lost any more.
keep_zonefs() {
    local all="${kept[$1]}${later[$1]}"
    kept[$1]=${all##*reset}
    later[$1]=
}

mark_zonefs() {
    local answer
    echo "$1" >&"${line:?}"
    read -r answer <&"$line"
    [[ $answer == ok ]]
}

play_zonefs() {
    local workload name number operation file count how size
    look_at_zonefs
    for workload in "${workloads:?}"/*; do
        name=${workload##*/}
        number=0
        mark_zonefs "$name 0"
        while read -r operation file count how; do
            number=$((number + 1))
            done_to "$name" "$number" "$operation" "$file" "$count" || continue
            case $operation in
            append)
                [[ $how == pieces ]] && size=$zonefs_block || size=$((count * zonefs_block))
                append_zonefs "$name.$number" "$count" "$place/$file" "$size"
                ;;
            reset) truncate --size 0 "$place/$file" ;;
            finish) truncate --size "$((most[$file] * zonefs_block))" "$place/$file" ;;
            fsync)
                command sync "$place/$file"
                mark_zonefs "$name $number"
                ;;
            esac
        done <"$workload"
    done
}

# append_zonefs TAG BLOCKS FILE BYTES: in writes of so many bytes. A block is a line, its tag and spaces.
append_zonefs() {
    local number
    for ((number = 0; number < $2; number++)); do
        printf "%-$((zonefs_block - 1))s\n" "$1.$number"
    done >/tmp/blocks
    dd if=/tmp/blocks of="$3" bs="$4" oflag=direct,append conv=notrunc status=none
}

# judge_zonefs MARKS: compares the files with what was done before the last mark, and may have been done after it.
judge_zonefs() {
    local workload name number operation file count how last passed=false
    last=$(tail -n 1 "$1")
    look_at_zonefs
    for workload in "$workloads"/*; do
        name=${workload##*/}
        number=0
        [[ $last != "$name 0" ]] || passed=true
        while read -r operation file count how; do
            number=$((number + 1))
            done_to "$name" "$number" "$operation" "$file" "$count" || continue
            [[ $operation == fsync ]] || continue
            ! $passed || break 2
            keep_zonefs "$file"
            [[ $last != "$name $number" ]] || passed=true
        done <"$workload"
    done
    $passed || { echo "found the mark \`$last\`, of which there is no workload" && return 1; }
    for file in "${!most[@]}"; do
        judge_zone "$file" || { echo "after $last: $file: $why" && return 1; }
    done
}

# judge_zone FILE: whether it is as its fsync left it, or after some of what was done since. Sets $why if not.
judge_zone() {
    local file=$1 event found expected=() full='' LC_ALL=C
    mapfile -t found <"$place/$file"
    # In a finished zone zeros come after the blocks, and no line ends there.
    ((${#found[@]} == 0)) || [[ -n ${found[-1]} ]] || unset 'found[-1]'
    why="found ${sizes[$file]} bytes with the blocks: ${found[*]%% *}; expected:${kept[$file]:- none}, and then up to all of:${later[$file]:- none}"
    for event in ${kept[$file]}; do
        happens "$event"
    done
    ! is_as_expected || return 0
    for event in ${later[$file]}; do
        happens "$event"
        ! is_as_expected || return 0
    done
    return 1
}

# happens EVENT: to $expected and $full, the blocks of a zone and whether it was finished.
happens() {
    case $1 in
    reset) expected=() full='' ;;
    full) full=yes ;;
    *) expected+=("$1") ;;
    esac
}

# Whether the zone $file has the blocks $expected.
is_as_expected() {
    local number block size=$((${#expected[@]} * zonefs_block))
    [[ -z $full ]] || size=$((most[$file] * zonefs_block))
    ((sizes[$file] == size && ${#found[@]} == ${#expected[@]})) || return 1
    for ((number = 0; number < ${#expected[@]}; number++)); do
        printf -v block "%-$((zonefs_block - 1))s" "${expected[number]}"
        [[ ${found[number]} == "$block" ]] || return 1
    done
}

# A zone that is not full takes a block, or the first one does after a reset.
write_zonefs() {
    local file size
    for file in "${!most[@]}"; do
        size=${sizes[$file]}
        ((size == most[$file] * zonefs_block)) || break
    done
    if ((size == most[$file] * zonefs_block)); then
        truncate --size 0 "$place/$file"
        size=0
    fi
    append_zonefs later 1 "$place/$file" "$zonefs_block"
    command sync "$place/$file"
    [[ $(stat -c %s "$place/$file") == $((size + zonefs_block)) ]]
}
