# fs/btrfs/tree-log.c
# Takes back 266273eaf4d9, "btrfs: don't log conflicting inode if it's a dir moved in the current transaction".
/^static bool can_log_conflicting_inode\(/,/^}/s/return false;/return true;/
