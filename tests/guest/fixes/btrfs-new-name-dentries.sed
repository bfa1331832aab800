# fs/btrfs/tree-log.c
# Takes back 5630f7557de6, "btrfs: do not skip logging new dentries when logging a new name".
/^static int log_new_dir_dentries\(/,/^}/s/^\tpath = btrfs_alloc_path\(\);/\tif (ctx->logging_new_name)\n\t\treturn 0;\n&/
