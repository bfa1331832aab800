# The table of the suite plug, in Markdown: from the CSV of `zonal reproduce`, and the cells of the suite, which
# are TABLE,SCHEDULER,QD1,MAX_KB,X-RUN,MBS,KIB,LATE_PERCENT,LATE_US.
BEGIN { FS = "," }
NR == FNR {
    files = ""
    if (match($0, /jobs, [0-9.]+ MiB/)) { files = substr($0, RSTART + 6, RLENGTH - 10) }
    gsub(/"[^"]*"/, "device")
    x = $5
    if ($1 == "smr-xfs") x = files
    sub(/.*qd=/, "", x)
    if ($1 == "smr-rnd-zones") { x = $5; sub(/.* to /, "", x); sub(/ .*/, "", x) }
    # Sequential writes of 1 MiB; the table has those of zone write locking, too.
    if ($1 == "zwp-zns") { if ($3 != "ZWP" || !sub(/seqw1M/, "", x)) next }
    key = $1 "," $4 "," ($3 == "qd1-writes") "," x
    published[key] = $8
    ours[key] = $10
    next
}
{
    split($5, at, "-")
    key = $1 "," $2 "," $3 "," $4 "," at[1]
    if (!(key in low)) { order[++count] = key; low[key] = high[key] = $6 }
    if ($6 < low[key]) low[key] = $6
    if ($6 > high[key]) high[key] = $6
    kib[key] = $7
    late[key] = $8
    us[key] = $9
    # Mean lateness as a share of the mean time from one command to the next.
    lost[key] = $9 * $6 * 100 / ($7 * 1024)
}
END {
    print "| Load | Policy | Scheduler | Largest command | Published | Here, virtual time | The kernel | KiB a request | Late | by | lost at most |"
    print "|---|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= count; i++) {
        split(order[i], k, ",")
        same = k[1] "," k[2] "," k[3] "," k[5]
        load = (k[1] == "zwp-zns" ? "ZNS, " : "") "sequential, depth " k[5]
        if (k[1] == "smr-rnd-zones") load = k[5] " random zones"
        if (k[1] == "smr-xfs") load = "XFS, files of " k[5] " MiB"
        spread = low[order[i]] == high[order[i]] ? low[order[i]] : low[order[i]] " to " high[order[i]]
        # Those of other command lengths were not published.
        plain = k[4] <= 1280 || k[1] == "smr-xfs"
        printf "| %s | %s | %s | %s KiB | %s | %s | %s | %s | %s %% | %s us | %.1f %% |\n", load, k[3] == 1 ? "QD=1" : "plugging",
            k[2], k[4], plain ? published[same] : "", plain ? ours[same] : "", spread, kib[order[i]], late[order[i]], us[order[i]], lost[order[i]]
    }
}
