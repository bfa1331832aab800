"""A terminal of one screen: runs a program in it, and draws what it shows as SVG."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from xml.sax.saxutils import escape

ESCAPE = re.compile(r"\x1b\[([?>]?)([\d;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>78]")
# Colours that can be read on light and on dark pages, by their numbers.
PALETTE = ["#6b7280", "#c94a5a", "#1f9368", "#b07a12", "#2b83c4", "#a85cb8", "#1787a0", "#7f7f7f"]
# Width and height of a character, in pixels.
CELL = (8, 17)


class Terminal:
    """A screen of some columns and rows: the characters, and their colours and reversal."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[(" ", None, False)] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.colour, self.reverse = None, False

    def run(self, arguments, until, seconds=60):
        """Runs a program in the terminal until its screen has a text, and ends it with `q`."""
        pid, screen = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm-256color")
            os.execvp(arguments[0], arguments)
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))
        end, left = time.monotonic() + seconds, b""
        try:
            while not re.search(until, self.text()):
                assert time.monotonic() < end, f"after {seconds} s no {until}:\n{self.text()}"
                if select.select([screen], [], [], 0.2)[0]:
                    text, left = decoded(left + os.read(screen, 65536))
                    self.write(text)
            os.write(screen, b"q")
            while select.select([screen], [], [], 5)[0]:
                if not os.read(screen, 65536):
                    break
        except OSError:
            pass  # The program has closed the terminal.
        os.close(screen)
        os.waitpid(pid, 0)

    def write(self, text):
        at = 0
        while at < len(text):
            found = ESCAPE.match(text, at)
            if found:
                self.command(found)
                at = found.end()
                continue
            character, at = text[at], at + 1
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.row = min(self.row + 1, self.rows - 1)
            elif character >= " " and self.row < self.rows and self.column < self.columns:
                self.cells[self.row][self.column] = (character, self.colour, self.reverse)
                self.column += 1

    def command(self, found):
        private, numbers, letter = found.groups()
        if private or letter is None:
            return
        numbers = [int(number or 0) for number in numbers.split(";")]
        if letter == "H":
            self.row = max(numbers[0], 1) - 1
            self.column = max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif letter == "J":
            self.cells = [[(" ", None, False)] * self.columns for _ in range(self.rows)]
        elif letter == "m":
            self.style(numbers)

    def style(self, numbers):
        while numbers:
            number = numbers.pop(0)
            if number == 0:
                self.colour, self.reverse = None, False
            elif number in (7, 27):
                self.reverse = number == 7
            elif number in (38, 48) and numbers[:1] == [5]:
                colour = PALETTE[numbers[1] % 8]
                self.colour = colour if number == 38 else self.colour
                del numbers[:2]
            elif 30 <= number <= 37 or 90 <= number <= 97:
                self.colour = PALETTE[number % 10 % 8]
            elif number == 39:
                self.colour = None

    def text(self):
        return "\n".join("".join(cell[0] for cell in row).rstrip() for row in self.cells)

    def svg(self):
        """The screen as a picture for light and dark pages, without the empty rows at its end."""
        used = [number for number, row in enumerate(self.cells) if any(cell[0] != " " or cell[2] for cell in row)]
        rows = self.cells[: used[-1] + 1]
        (wide, high), (width, height) = CELL, (self.columns * CELL[0] + 16, len(rows) * CELL[1] + 16)
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
               "<style>svg{color:#222;background:#fff}text{font:13px monospace;white-space:pre}"
               "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#161616}}</style>"]
        for number, row in enumerate(rows):
            for start, characters, colour, reverse in runs(row):
                x, y, long = start * wide + 8, number * high + 8, len(characters) * wide
                ink = colour or "currentColor"
                if reverse:
                    out.append(f'<rect x="{x}" y="{y}" width="{long}" height="{high}" fill="{ink}" opacity="0.25"/>')
                if characters.strip():
                    out.append(f'<text x="{x}" y="{y + 13}" textLength="{long}" fill="{ink}" xml:space="preserve">{escape(characters)}</text>')
        return "\n".join(out + ["</svg>", ""])


def decoded(data):
    """The characters that are whole, and the bytes that are left."""
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode(), data[len(data) - cut:]
        except UnicodeDecodeError:
            continue
    raise ValueError(f"no UTF-8: {data[-8:]!r}")


def runs(row):
    """The parts of a row that look alike: where they start, their characters, colour and reversal."""
    start = 0
    for at in range(1, len(row) + 1):
        if at == len(row) or row[at][1:] != row[start][1:]:
            yield start, "".join(cell[0] for cell in row[start:at]), *row[start][1:]
            start = at
