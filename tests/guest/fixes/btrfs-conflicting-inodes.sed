# fs/btrfs/tree-log.c
# Takes back 7ba0b6461bc4, "btrfs: always detect conflicting inodes when logging inode refs".
/^static int copy_inode_items_to_log\(/,/^}/{
    s/else if \(min_key->type == BTRFS_INODE_REF_KEY \|\|/else if ((min_key->type == BTRFS_INODE_REF_KEY ||/
    s/min_key->type == BTRFS_INODE_EXTREF_KEY\) \{/min_key->type == BTRFS_INODE_EXTREF_KEY) \&\& (inode->generation == trans->transid || ctx->logging_conflict_inodes)) {/
}
