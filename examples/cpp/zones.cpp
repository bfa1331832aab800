/*
 * zones DEVICE: examples/c/zones.c in C++, where a device and a queue are closed with their scope and an
 * error is an exception.
 *
 *	c++ -std=c++17 zones.cpp $(pkg-config --cflags --libs zonal) -o zones
 */
#include <zonal.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

/* The result, or an exception with the sentence that the library has for the error. */
template <typename T> T check(T result, const char *what)
{
	if (result < 0)
		throw std::system_error(errno, std::generic_category(),
					std::string(what) + ": " + zonal_error());
	return result;
}

/* A handle that is closed with its scope. */
class Handle {
public:
	Handle(int number, int (*close)(int)) : number_(number), close_(close) {}
	~Handle() { close_(number_); }
	Handle(const Handle &) = delete;
	Handle &operator=(const Handle &) = delete;
	operator int() const { return number_; }

private:
	int number_;
	int (*close_)(int);
};

class Device : public Handle {
public:
	explicit Device(const char *name)
		: Handle(check(zonal_open(name, O_RDWR, nullptr), name), zonal_close)
	{
		check(zonal_get_info(*this, &info), name);
	}

	std::vector<zonal_zone> zones(unsigned int which) const
	{
		zonal_zone *found = nullptr;
		unsigned int count = 0;
		check(zonal_list_zones(*this, 0, 0, which, &found, &count), "report");
		std::unique_ptr<zonal_zone, decltype(&std::free)> owner(found, &std::free);
		return { found, found + count };
	}

	zonal_info info{};
};

class Queue : public Handle {
public:
	Queue(const Device &device, unsigned int depth)
		: Handle(check(zonal_queue_open(device, depth), "queue"), zonal_queue_close)
	{
	}

	void submit(zonal_io &io) { check(zonal_submit(*this, &io, 1), "submit"); }

	std::vector<zonal_completion> poll(unsigned int most)
	{
		std::vector<zonal_completion> done(most);
		done.resize(static_cast<size_t>(check(zonal_poll(*this, done.data(), most, -1), "poll")));
		return done;
	}
};

/* Fills a zone with writes that are in flight together: the block layer keeps them in order. */
void fill(const Device &device, const zonal_zone &zone)
{
	constexpr unsigned int depth = 8;
	const unsigned int block = device.info.lblock_size;
	std::vector<std::vector<unsigned char>> data(depth, std::vector<unsigned char>(block));
	std::vector<size_t> unused;
	for (size_t i = 0; i < depth; i++)
		unused.push_back(i);
	/* Behind the data, so that it is closed before they go. */
	Queue queue(device, depth);
	unsigned long long at = zone.start;
	const unsigned long long end = zone.start + zone.capacity;
	while (at < end || unused.size() < depth) {
		for (; at < end && !unused.empty(); at += block) {
			zonal_io io{};
			io.op = ZONAL_WRITE;
			io.offset = at;
			io.length = block;
			io.user_data = unused.back();
			auto &buffer = data[unused.back()];
			std::memset(buffer.data(), static_cast<int>(at / block), block);
			io.data = buffer.data();
			queue.submit(io);
			unused.pop_back();
		}
		for (const auto &done : queue.poll(depth)) {
			if (done.result != block)
				throw std::system_error(static_cast<int>(-done.result),
							std::generic_category(), "write");
			unused.push_back(done.user_data);
		}
	}
}

void verify(const Device &device, const zonal_zone &zone)
{
	const unsigned int block = device.info.lblock_size;
	std::vector<unsigned char> data(block);
	for (auto at = zone.start; at < zone.start + zone.capacity; at += block) {
		check(zonal_pread(device, data.data(), block, static_cast<off_t>(at)), "read");
		for (auto byte : data)
			if (byte != static_cast<unsigned char>(at / block))
				throw std::runtime_error("a block is not what was written");
	}
}

void report(const Device &device)
{
	unsigned int number = 0;
	for (auto &zone : device.zones(ZONAL_RO_ALL))
		std::cout << "zone " << number++ << ": " << zonal_zone_type_str(&zone, false) << ", "
			  << zonal_zone_cond_str(&zone, false) << ", start " << zone.start << ", wp "
			  << zone.wp << '\n';
}

void run(const char *name)
{
	Device device(name);
	const auto &info = device.info;
	std::cout << info.vendor_id << ": " << zonal_device_model_str(info.model, false) << ", "
		  << info.nr_zones << " zones of " << info.zone_size << " bytes\n";
	const auto zones = device.zones(ZONAL_RO_EMPTY);
	if (zones.size() < 2)
		throw std::runtime_error(std::string(name) + ": expected 2 empty zones");

	fill(device, zones[0]);
	verify(device, zones[0]);
	const std::vector<unsigned char> data(info.lblock_size);
	const auto start = static_cast<off_t>(zones[1].start);
	off_t landed = 0;
	for (int i = 0; i < 2; i++)
		check(zonal_append(device, data.data(), data.size(), start, &landed), "append");
	std::cout << "the second append landed at " << landed << '\n';
	check(zonal_fsync(device), "fsync");
	report(device);

	/* Not at the write pointer. */
	try {
		check(zonal_pwrite(device, data.data(), data.size(), start), "write");
	} catch (const std::system_error &) {
		std::cout << "refused: " << zonal_error() << '\n';
	}
	const auto zone_size = static_cast<off_t>(info.zone_size);
	check(zonal_reset_zones(device, static_cast<off_t>(zones[0].start), 2 * zone_size), "reset");
	report(device);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 2) {
		std::cerr << "usage: zones DEVICE\n";
		return 2;
	}
	try {
		run(argv[1]);
	} catch (const std::exception &error) {
		std::cerr << error.what() << '\n';
		return 1;
	}
	return 0;
}
