# fs/f2fs/recovery.c
# Takes back d508c94e45fc, "f2fs: Check write pointer consistency of non-open zones".
s/err2 = f2fs_check_write_pointer\(sbi\);/err2 = 0;/
