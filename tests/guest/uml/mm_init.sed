# Of mm/mm_init.c. From Linux 7 on the page of zeroes is a part of the program, of which servers over vhost-user see
# nothing: btrfs's writes of it (the nodes of the tree log that were freed) failed. It is memory like that of other I/O.
s/__zero_page = virt_to_page\(empty_zero_page\)/__zero_page = virt_to_page(memblock_alloc(PAGE_SIZE, PAGE_SIZE))/
