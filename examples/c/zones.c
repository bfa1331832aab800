/*
 * zones DEVICE: writes to two zones of a device, reads back what it wrote, shows the zones and resets
 * them. The device is anything that `zonal devices` explains, such as
 * null:zones=8,zone_size=1M,lba=4096,memory=true, or an image.
 *
 *	cc zones.c $(pkg-config --cflags --libs zonal) -o zones
 *
 * The part that manages zones is what a program for libzbd has, with `zonal` in place of `zbd`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zonal.h>

#define DEPTH 8

static void check(long result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s (%s)\n", what, zonal_error(), strerror(errno));
		exit(1);
	}
}

static void report(int dev)
{
	struct zonal_zone *zones;
	unsigned int i, nr_zones;

	check(zonal_list_zones(dev, 0, 0, ZONAL_RO_ALL, &zones, &nr_zones), "report");
	for (i = 0; i < nr_zones; i++) {
		struct zonal_zone *z = &zones[i];

		printf("zone %u: %s, %s, start %llu, wp %llu\n", i, zonal_zone_type_str(z, false),
		       zonal_zone_cond_str(z, false), z->start, z->wp);
	}
	free(zones);
}

/* Fills a zone with writes that are in flight together: the block layer keeps them in order. */
static void fill(int dev, struct zonal_zone *zone, unsigned int block)
{
	struct zonal_completion done[DEPTH];
	unsigned long long at = zone->start, end = zone->start + zone->capacity;
	unsigned int in_flight = 0;
	unsigned char *data = calloc(DEPTH, block);
	unsigned int unused[DEPTH], nr_unused = DEPTH, i;
	int queue = zonal_queue_open(dev, DEPTH), count;

	check(queue, "queue");
	for (i = 0; i < DEPTH; i++)
		unused[i] = i;
	while (at < end || in_flight) {
		while (at < end && nr_unused) {
			struct zonal_io io = { .op = ZONAL_WRITE, .offset = at, .length = block };

			io.user_data = unused[--nr_unused];
			io.data = data + io.user_data * block;
			memset(io.data, (int)(at / block), block);
			check(zonal_submit(queue, &io, 1), "submit");
			at += block;
			in_flight++;
		}
		count = zonal_poll(queue, done, DEPTH, -1);
		check(count, "poll");
		for (i = 0; i < (unsigned int)count; i++) {
			if (done[i].result != block) {
				fprintf(stderr, "write at %llu: %s\n", (unsigned long long)done[i].offset,
					strerror((int)-done[i].result));
				exit(1);
			}
			unused[nr_unused++] = (unsigned int)done[i].user_data;
			in_flight--;
		}
	}
	check(zonal_queue_close(queue), "close");
	free(data);
}

static void verify(int dev, struct zonal_zone *zone, unsigned int block)
{
	unsigned char *data = malloc(block);
	unsigned long long at;
	unsigned int i;

	for (at = zone->start; at < zone->start + zone->capacity; at += block) {
		check(zonal_pread(dev, data, block, (off_t)at), "read");
		for (i = 0; i < block; i++) {
			if (data[i] != (unsigned char)(at / block)) {
				fprintf(stderr, "byte %llu is not what was written\n", at + i);
				exit(1);
			}
		}
	}
	free(data);
}

int main(int argc, char **argv)
{
	struct zonal_zone zones[2];
	struct zonal_info info;
	unsigned int nr_zones = 2;
	void *data;
	off_t landed;
	int dev;

	if (argc != 2) {
		fprintf(stderr, "usage: zones DEVICE\n");
		return 2;
	}
	if (zonal_version() / 100 != ZONAL_VERSION / 100) {
		fprintf(stderr, "found libzonal %d, expected %d\n", zonal_version(), ZONAL_VERSION);
		return 1;
	}
	dev = zonal_open(argv[1], O_RDWR, &info);
	check(dev, argv[1]);
	printf("%s: %s, %u zones of %llu bytes\n", info.vendor_id,
	       zonal_device_model_str(info.model, false), info.nr_zones, info.zone_size);
	check(zonal_report_zones(dev, 0, 0, ZONAL_RO_EMPTY, zones, &nr_zones), "report");
	if (nr_zones < 2) {
		fprintf(stderr, "%s: found %u empty zones, expected 2\n", argv[1], nr_zones);
		return 1;
	}

	fill(dev, &zones[0], info.lblock_size);
	verify(dev, &zones[0], info.lblock_size);
	data = calloc(1, info.lblock_size);
	check(zonal_append(dev, data, info.lblock_size, (off_t)zones[1].start, &landed), "append");
	check(zonal_append(dev, data, info.lblock_size, (off_t)zones[1].start, &landed), "append");
	printf("the second append landed at %lld\n", (long long)landed);
	check(zonal_fsync(dev), "fsync");
	report(dev);

	/* Not at the write pointer. */
	if (zonal_pwrite(dev, data, info.lblock_size, (off_t)zones[1].start) < 0)
		printf("refused: %s\n", zonal_error());
	check(zonal_reset_zones(dev, (off_t)zones[0].start, 2 * (off_t)info.zone_size), "reset");
	report(dev);
	free(data);
	check(zonal_close(dev), "close");
	return 0;
}
