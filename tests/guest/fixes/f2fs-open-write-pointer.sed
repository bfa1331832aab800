# fs/f2fs/recovery.c
# Takes back c426d99127b1, "f2fs: Check write pointer consistency of open zones".
s/int err2 = f2fs_fix_curseg_write_pointer\(sbi\);/int err2 = 0;/
