# fs/btrfs/zoned.c
# Takes back b0c26f479926, "btrfs: zoned: return EIO on RAID1 block group write pointer mismatch".
s/^\t\tcache->alloc_offset = cache->zone_capacity;/&\n\t\tret = 0;/
