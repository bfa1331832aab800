# fs/btrfs/tree-log.c
# Takes back bfe3d755ef7c, "btrfs: do not update last_log_commit when logging inode due to a new name".
s/if \(!ctx->logging_new_name && inode_only != LOG_INODE_EXISTS\)/if (inode_only != LOG_INODE_EXISTS)/
