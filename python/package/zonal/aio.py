"""I/O in flight for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from zonal._zonal import Queue
from zonal.errors import DeviceError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from zonal._zonal import Completion, Device

__all__ = ["AsyncQueue"]


class AsyncQueue:
    """A queue whose operations are awaited, up to ``depth`` of them in flight.

    >>> import zonal
    >>> async def main():
    ...     with zonal.Device("zns-1t") as device:
    ...         async with AsyncQueue(device, depth=8) as queue:
    ...             return await asyncio.gather(*(queue.append(0, bytes(65536)) for _ in range(3)))
    >>> sorted(asyncio.run(main()))
    [0, 65536, 131072]

    An operation that the device fails raises :class:`zonal.DeviceError`. On a model, whose time is virtual, the same
    program gives the same order of completions each time.
    """

    def __init__(self, device: Device, depth: int = 32) -> None:
        self._queue = Queue(device, depth)
        self._free = asyncio.Semaphore(depth)
        self._waiting: dict[int, asyncio.Future[Completion]] = {}
        self._delivery: asyncio.Task[None] | None = None

    async def read(self, offset: int, length: int) -> bytes:
        """Reads bytes. Offset and length are multiples of the block size."""
        done = await self._run(lambda: self._queue.read(offset, length))
        assert done.data is not None
        return done.data

    async def write(self, offset: int, data: Buffer, *, fua: bool = False) -> None:
        """Writes: in a sequential zone at the write pointer, or after writes that are in flight."""
        await self._run(lambda: self._queue.write(offset, data, fua=fua))

    async def append(self, zone: int, data: Buffer) -> int:
        """Appends to a zone. Returns the offset at which the data landed."""
        return (await self._run(lambda: self._queue.append(zone, data))).offset

    async def flush(self) -> None:
        """Makes durable what has completed."""
        await self._run(self._queue.flush)

    async def manage(self, op: Literal["reset", "open", "close", "finish"], zone: int) -> None:
        """One of reset, open, close and finish of a zone."""
        await self._run(lambda: self._queue.manage(op, zone))

    async def _run(self, submit: Callable[[], int]) -> Completion:
        await self._free.acquire()
        try:
            number = submit()
        except BaseException:
            self._free.release()
            raise
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        if self._delivery is None:
            self._delivery = asyncio.create_task(self._deliver())
        done: Completion = await future
        if done.error is not None:
            raise DeviceError(done.error)
        return done

    async def _deliver(self) -> None:
        """Hands out completions as long as there are I/Os in flight."""
        try:
            while self._waiting:
                # What is ready to run submits first.
                await asyncio.sleep(0)
                for done in self._queue.poll(0) or await asyncio.to_thread(self._queue.poll):
                    self._free.release()
                    future = self._waiting.pop(done.number)
                    if not future.cancelled():
                        future.set_result(done)
        except Exception as error:
            # Such as a device that was closed.
            for future in self._waiting.values():
                self._free.release()
                if not future.done():
                    future.set_exception(error)
            self._waiting.clear()
        finally:
            self._delivery = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._delivery is not None:
            await self._delivery
        self._queue.close()
