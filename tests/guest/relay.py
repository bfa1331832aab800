"""Relays connections to a port of this machine, and keeps what their clients send.

usage: relay.py PORT DIRECTORY

Prints the port where it listens, and ends with SIGTERM. What client N (0, 1, ...) sends is in the file DIRECTORY/N.
"""

import asyncio
import itertools
import pathlib
import signal
import sys


async def copy(source, sink, kept=None):
    """Until the source ends. Bytes are in the file before the sink has them."""
    while data := await source.read(1 << 16):
        if kept:
            kept.write(data)
            kept.flush()
        sink.write(data)
        await sink.drain()
    sink.close()


async def main(port, directory):
    numbers = itertools.count()

    async def relay(client, to_client):
        with open(directory / str(next(numbers)), "wb") as kept:
            server, to_server = await asyncio.open_connection("127.0.0.1", port)
            ends = copy(client, to_server, kept), copy(server, to_client)
            await asyncio.gather(*ends, return_exceptions=True)

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    relays = await asyncio.start_server(relay, "127.0.0.1", 0)
    print(relays.sockets[0].getsockname()[1], flush=True)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), pathlib.Path(sys.argv[2])))
