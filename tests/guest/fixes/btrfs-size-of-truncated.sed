# fs/btrfs/tree-log.c
# Takes back 5254d4181add, "btrfs: fix zero size inode with non-zero size after log replay".
/^static void fill_inode_item\(/,/^}/{
    /data_race\(BTRFS_I\(inode\)->logged_trans\) < trans->transid/d
}
