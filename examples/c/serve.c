/*
 * serve DEVICE EXPORTS: serves a device from this program, until a signal ends it. DEVICE is anything
 * that `zonal devices` explains, EXPORTS what zonal_serve() takes, such as nvme_tcp=127.0.0.1:4420.
 * Without arguments it serves a device in memory over NVMe/TCP, opens it as a host, and ends.
 *
 *	cc serve.c $(pkg-config --cflags --libs zonal) -o serve
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zonal.h>

static int check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s (%s)\n", what, zonal_error(), strerror(errno));
		exit(1);
	}
	return result;
}

/* Writes a block by way of the export, and reads it back. */
static void use(const char *location)
{
	static char data[4096], found[4096];
	struct zonal_info info;
	int dev = check(zonal_open(location, O_RDWR, &info), "open");

	memset(data, 'z', sizeof(data));
	check(zonal_pwrite(dev, data, sizeof(data), 0), "write");
	check(zonal_pread(dev, found, sizeof(found), 0), "read");
	printf("%u zones, %s\n", info.nr_zones,
	       memcmp(data, found, sizeof(data)) ? "other data" : "the same data");
	check(zonal_close(dev), "close");
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "null:zones=4,zone_size=64K,lba=4096,memory=true";
	const char *exports = argc > 2 ? argv[2] : "nvme_tcp=127.0.0.1:0";
	int server = check(zonal_serve(name, NULL, exports), "serve");
	char location[256];

	check(zonal_server_location(server, 0, location, sizeof(location)), "location");
	if (argc > 1) {
		puts(location);
		fflush(stdout);
		check(zonal_server_wait(server), "wait");
	} else {
		use(location);
	}
	check(zonal_server_stop(server), "stop");
	return 0;
}
