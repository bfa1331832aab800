# fs/btrfs/tree-log.c
# Takes back 9573a365ff9f, "btrfs: log new dentries when logging parent dir of a conflicting inode".
/^static int log_conflicting_inodes\(/,/^}/{
    /ctx->log_new_dentries/d
    /ret = log_new_dir_dentries/d
}
