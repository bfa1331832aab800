"""Opens the pages in a browser and compares what they show with the reports of the jobs.

usage: check.py ZONAL DIR-FOR-PICTURES
"""

import json
import re
import signal
import subprocess
import sys
import time

from browser import Browser
from terminal import Terminal

# Of a job that takes 20 seconds, so that a browser on a slow machine sees it run.
WRITES = 4000
TILE = """
const tiles = [...document.querySelectorAll('.tiles div')];
const of = (number) => tiles.filter((tile) => tile.querySelector('dt').textContent === %r)[number];
return of(%d).querySelector('dd').textContent;
"""
CONDITIONS = """
return [...document.querySelectorAll('.run table')[0].tBodies[0].rows].map((row) => [row.cells[0].textContent, Number(row.cells[1].textContent)]);
"""
NAMES = {"-": "not-write-pointer", ".": "empty", "o": "implicit-open", "O": "explicit-open", "c": "closed",
         "#": "full", "r": "read-only", "x": "offline"}


def tile(browser, name, run=0):
    return browser.run(TILE % (name, run))


def writes_shown(browser, run=0):
    found = re.search(r"in (\d+) writes", tile(browser, "Written so far", run))
    return int(found.group(1)) if found else 0


def totals(report):
    """Writes and their bytes, of a report in JSON."""
    with open(report, encoding="utf-8") as file:
        jobs = json.load(file)["jobs"]
    return sum(job["write"]["total_ios"] for job in jobs), sum(job["write"]["io_bytes"] for job in jobs)


# The places of all texts that the canvases have, by the canvas: they are drawn again to be seen.
TEXTS = """
const found = new Map(), fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const wide = this.measureText(text).width, left = x - { left: 0, center: wide / 2, right: wide }[this.textAlign];
  if (!found.has(this.canvas)) found.set(this.canvas, []);
  found.get(this.canvas).push([text, left, y - 4, left + wide, y + 4]);
  fill.call(this, text, x, y);
};
document.getElementById('window').dispatchEvent(new Event('change'));
CanvasRenderingContext2D.prototype.fillText = fill;
return [...found].map(([canvas, texts]) => [canvas.getAttribute('aria-label'), canvas.clientWidth, texts]);
"""


def labels_are_apart(browser, width):
    """No label of a plot is on another one, or cut off."""
    for plot, wide, texts in browser.run(TEXTS):
        for number, (text, left, top, right, bottom) in enumerate(texts):
            assert left >= 0 and right <= wide, f"at {width} pixels {text} is cut off in {plot}"
            for other in texts[:number]:
                apart = right <= other[1] or other[3] <= left or bottom <= other[2] or other[4] <= top
                assert apart, f"at {width} pixels {text} is on {other[0]} in {plot}"


def plots_have_legends(browser):
    """Each plot says below it what its colours and lines are."""
    found = browser.run("""
        const plots = [...document.querySelectorAll('figure:not([hidden])')].filter((figure) => figure.querySelector('canvas'));
        return plots.map((figure) => [figure.querySelector('figcaption').textContent, figure.querySelectorAll('.legend li').length]);
    """)
    assert len(found) > 4 and all(entries for _, entries in found), found


# The part of the plot of writes that has a colour.
COLOURED = """
const canvas = document.querySelector('#heat-0 canvas');
const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
let coloured = 0;
for (let at = 0; at < pixels.length; at += 4) {
  if (pixels[at + 3] === 255 && Math.max(pixels[at], pixels[at + 1], pixels[at + 2]) - Math.min(pixels[at], pixels[at + 1], pixels[at + 2]) > 60) coloured += 1;
}
return coloured / pixels.length * 4;
"""


def zooms_to_what_is_active(browser):
    """Four zones of 111,760 are no hairlines."""
    parts = {}
    for zones in ("all", "active"):
        browser.run(f"const zones = document.getElementById('zones'); zones.value = '{zones}'; zones.dispatchEvent(new Event('change'))")
        parts[zones] = browser.run(COLOURED)
    assert parts["active"] > 0.3 and parts["all"] < 0.05, parts


def times_are_shared(browser):
    """What a disk does is at no time more than all of the time, and with its idle time all of it."""
    browser.run("document.querySelectorAll('#inside-0 details').forEach((details) => { details.open = true; })")
    browser.wait("return document.querySelector('#inside-0 table').tBodies[0].rows.length > 3")
    rows = browser.run("return [...document.querySelector('#inside-0 table').tBodies[0].rows].map((row) => row.cells[2].textContent)")
    sums = [sum(int(part) for part in re.findall(r"(\d+) %", row)) for row in rows]
    assert all(96 <= found <= 104 for found in sums[1:]), rows


def fits(browser, width):
    found = browser.run("return document.documentElement.scrollWidth")
    assert found <= width, f"at {width} pixels the page is {found} wide"


def pictures(browser, name, where):
    for width in (1400, 400):
        for scheme in ("light", "dark"):
            browser.size(width, 1000)
            browser.scheme(scheme)
            browser.run("window.scrollTo(0, 0)")
            time.sleep(0.5)
            fits(browser, width)
            labels_are_apart(browser, width)
            browser.picture(f"{where}/{name}-{width}-{scheme}.png")
    browser.size(1400, 1000)
    browser.scheme("light")


class Server:
    """A `zonal` program that prints where it serves."""

    def __init__(self, arguments, lines):
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        self.places = [self.process.stdout.readline().strip() for _ in range(lines)]

    def place(self, start):
        return next(place for place in self.places if place.startswith(start))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)


def tables_have_rows(browser):
    """Every plot has a table behind it, with rows."""
    browser.run("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    browser.wait("return [...document.querySelectorAll('figure:not([hidden]) table')].every((table) => table.tBodies[0].rows.length)")
    found = browser.run("return [...document.querySelectorAll('canvas')].filter((canvas) => !canvas.getAttribute('aria-label')).length")
    assert found == 0, f"{found} plots have no label"
    plots_have_legends(browser)
    browser.run("document.querySelectorAll('details').forEach((details) => { details.open = false; })")


def served(browser, zonal, where):
    """A job over NVMe/TCP on a served device: the page, the socket and the job's report agree."""
    serve = [zonal, "serve", "zns-1t:zones=96,zone_size=4M,zone_capacity=4M", "--nvme-tcp", "127.0.0.1:0", "--ctl", "ctl", "--web", "127.0.0.1:0"]
    with Server(serve, 3) as server:
        browser.open(server.place("http"))
        browser.wait("return document.getElementById('state').textContent === 'live'")
        job = subprocess.Popen(
            [zonal, "run", "--device", server.place("nvme-tcp"), "--name", "w", "--rw", "write", "--zonemode", "zbd",
             "--bs", "64k", "--iodepth", "8", "--nomerges", "--numjobs", "2", "--offset_increment", "40z", "--size", "40z", "--rate_iops", "100",
             "--number_ios", str(WRITES // 2), "--output-format", "json", "--output", "served.json"])
        browser.wait("return " + "document.querySelector('.tiles b').textContent !== '0' && document.querySelector('.tiles b').textContent !== ''")
        screen = Terminal(60, 20)
        screen.run([zonal, "top", "ctl"], r"writes +[1-9][^\n]*[\u2581-\u2588]{3}")
        with open(f"{where}/top-60.svg", "w", encoding="utf-8") as file:
            file.write(screen.svg())
        time.sleep(1)
        assert 0 < writes_shown(browser) < WRITES, "the page shows the job while it runs"
        browser.picture(f"{where}/web-serve.png", whole=False)
        tables_have_rows(browser)
        pictures(browser, "serve", where)
        assert job.wait(timeout=300) == 0
        writes, size = totals("served.json")
        assert writes == WRITES, f"the job did {writes}"
        browser.wait(f"return document.querySelector('.tiles').textContent.includes('in {writes} writes')")
        text = tile(browser, "Written so far")
        assert text.startswith(f"{size / (1 << 20):.0f} MiB") or f"{size / (1 << 20):.0f}" in text, f"{text}, expected {size} bytes"
        map_of = json.loads(subprocess.check_output([zonal, "ctl", "ctl", "--json", "view", "0", "1", "16384"]))["zones"]
        expected = {name: map_of["conditions"].count(letter) for letter, name in NAMES.items()}
        assert dict(browser.run(CONDITIONS)) == expected, f"{browser.run(CONDITIONS)}, expected {expected}"
        assert sum(expected.values()) == map_of["zones"] and expected["full"] > 50
        keys(browser)
        assert browser.errors() == [], browser.errors()
    print(f"served: {writes} writes, {expected['full']} zones full, as the job and the socket report")


def keys(browser):
    """The map is used with the keyboard, and says what is selected."""
    browser.run("document.querySelector('canvas[tabindex]').focus()")
    press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: %r, bubbles: true, cancelable: true }))"
    browser.run(press % "End")
    browser.run(press % "Home")
    said = browser.run("return document.querySelector('output.note').textContent")
    assert re.match(r"zones? 0(: | to )", said), said


def recorded(browser, zonal, where):
    """Two recordings side by side: the page shows what the reports have, and goes to any moment."""
    expected = []
    for policy in ("qd1", "plug"):
        job = [zonal, "run", "--clock", "virtual", "--device", "smr-30t", "--zone-write", policy, "--name", "w", "--rw", "write",
               "--zonemode", "zbd", "--bs", "256k", "--iodepth", "4", "--numjobs", "4", "--offset_increment", "20000z", "--size", "4z",
               "--number_ios", "1500", "--record-view", policy, "--output-format", "json", "--output", f"{policy}.json"]
        subprocess.run(job, check=True)
        expected.append(totals(f"{policy}.json"))
    with Server([zonal, "view", "qd1", "plug"], 1) as server:
        browser.open(server.place("http"))
        browser.wait("return document.querySelectorAll('.run').length === 2 && document.querySelector('.tiles b').textContent !== ''")
        for run, (writes, _) in enumerate(expected):
            assert writes_shown(browser, run) == writes, f"run {run}: {tile(browser, 'Written so far', run)}, expected {writes}"
        browser.run("document.querySelector('.events button').click()")
        assert writes_shown(browser) < expected[0][0], "an event is before the end"
        before = browser.run("return document.getElementById('now').textContent")
        browser.run("document.getElementById('play').click()")
        browser.wait(f"return document.getElementById('now').textContent !== {before!r}")
        browser.run("const time = document.getElementById('time'); time.value = time.max; time.dispatchEvent(new Event('input'))")
        assert [writes_shown(browser, run) for run in (0, 1)] == [writes for writes, _ in expected]
        tables_have_rows(browser)
        times_are_shared(browser)
        zooms_to_what_is_active(browser)
        browser.run("document.querySelectorAll('details').forEach((details) => { details.open = false; })")
        browser.run("window.scrollTo(0, document.getElementById('heat-0').getBoundingClientRect().top + window.scrollY - 60)")
        time.sleep(0.5)
        browser.picture(f"{where}/web-view.png", whole=False)
        browser.size(400, 900)
        browser.run("window.scrollTo(0, document.getElementById('heat-0').getBoundingClientRect().top + window.scrollY - 140)")
        time.sleep(0.5)
        browser.picture(f"{where}/web-view-400.png", whole=False)
        pictures(browser, "view", where)
        assert browser.errors() == [], browser.errors()
    subprocess.run([zonal, "view", "qd1", "--html", "alone.html"], check=True)
    browser.open("file:///" + subprocess.check_output(["realpath", "alone.html"], text=True).strip())
    browser.wait("return document.querySelector('.tiles b') && document.querySelector('.tiles b').textContent !== ''")
    assert writes_shown(browser) == expected[0][0]
    print(f"recorded: {expected[0][0]} and {expected[1][0]} writes, as the reports have")


def reports(browser, zonal, where):
    """The page of advice begins with the answer, and fits a telephone."""
    advise = [zonal, "advise", "--device", "smr-30t", "--schedulers", "none,mq-deadline", "--zone-write", "plug,qd1", "--depths", "1,4,8,16", "--time", "10",
              "--name", "w", "--rw", "write", "--bs", "1m", "--zonemode", "zbd", "--iodepth", "8", "--numjobs", "2", "--offset_increment", "1000z",
              "--size", "100z", "--format"]
    answer = json.loads(subprocess.check_output([*advise, "json"]))["answer"]
    with open("advice.html", "wb") as file:
        subprocess.run([*advise, "html"], check=True, stdout=file)
    browser.open("file:///" + subprocess.check_output(["realpath", "advice.html"], text=True).strip())
    first = browser.run("return document.querySelector('h1').nextElementSibling.textContent")
    assert first == answer, f"{first}, expected {answer}"
    for width, height in ((1400, 1000), (400, 900)):
        browser.size(width, height)
        browser.scheme("light")
        time.sleep(0.5)
        fits(browser, width)
        browser.picture(f"{where}/advice-{width}.png", whole=False)
        browser.picture(f"{where}/advice-{width}-whole.png")
    browser.size(1400, 1000)
    print("reports: the advice begins with its answer")


def running(browser, zonal):
    """`zonal run --web` shows a run while it lasts."""
    job = subprocess.Popen(
        [zonal, "run", "--device", "smr-30t", "--web", "127.0.0.1:0", "--name", "r", "--rw", "randread", "--bs", "4k", "--runtime", "15",
         "--time_based", "--output", "run.txt"], stderr=subprocess.PIPE, text=True)
    url = next(re.search(r"http://\S+", line).group(0) for line in job.stderr if "http://" in line)
    browser.open(url)
    browser.wait("return /in [1-9][0-9]* reads/.test(document.querySelector('.tiles')?.textContent)", 12)
    browser.wait("return document.getElementById('head-0') && !document.getElementById('head-0').hidden", 12)
    job.stderr.read()
    assert job.wait() == 0
    browser.wait("return document.getElementById('state').textContent.startsWith('the device is not served')")
    print("run: shown while it lasts")


def stalled(browser, zonal):
    """A write that waits in its plug for long is an event."""
    job = subprocess.Popen(
        [zonal, "run", "--device", "null:zones=8,zone_size=1M", "--fault", "delay=write,time=4s", "--web", "127.0.0.1:0", "--name", "s", "--rw", "write",
         "--zonemode", "zbd", "--bs", "4k", "--iodepth", "4", "--nomerges", "--number_ios", "4", "--output", "stalled.txt"], stderr=subprocess.PIPE, text=True)
    url = next(re.search(r"http://\S+", line).group(0) for line in job.stderr if "http://" in line)
    browser.open(url)
    browser.wait("return document.querySelector('.events')?.textContent.includes('zone 0: a write has waited in its plug for a second')", 12)
    assert "while watched" in tile(browser, "Written so far"), tile(browser, "Written so far")
    job.stderr.read()
    assert job.wait() == 0
    print("stalled: an event")


CHOOSE = """
window.confirm = (text) => { window.asked = text; return %s; };
const label = [...document.querySelectorAll('.control label')].find((label) => label.textContent.startsWith(%r));
const field = label.querySelector('select, input');
field.value = %r;
label.querySelector('button').click();
return window.asked;
"""
SAID = "return document.querySelector('.control output').textContent"


def controlled(browser, zonal):
    """The buttons of `--web-control`, and the token of an address that others reach."""
    serve = [zonal, "serve", "null:zones=16,zone_size=4M", "--nvme-tcp", "127.0.0.1:0", "--ctl", "control", "--web", "0.0.0.0:0", "--web-control"]
    with Server(serve, 3) as server:
        url = server.place("http").replace("0.0.0.0", "127.0.0.1")
        bare, token = url.split("?token=")
        for wrong in (bare, f"{bare}?token={token[:-1]}", f"{bare}?token="):
            browser.open(wrong)
            browser.wait("return document.getElementById('state').textContent.startsWith('cannot show anything: expected ?token=')")
            assert browser.run("return document.querySelectorAll('.run').length") == 0
        assert any("401" in error for error in browser.errors())
        browser.open(url)
        browser.wait("return document.getElementById('state').textContent === 'live'")
        asked = browser.run(CHOOSE % ("false", "Scheduler", "mq-deadline"))
        assert asked == 'Execute "set scheduler mq-deadline"?', asked
        time.sleep(1)
        assert tile(browser, "Scheduler") == "none, writes: plug", "what is not confirmed is not done"
        browser.run(CHOOSE % ("true", "Scheduler", "mq-deadline"))
        browser.wait(SAID + " === 'done'")
        browser.run(CHOOSE % ("true", "Zone writes", "qd1"))
        browser.wait("return document.querySelector('.tiles').textContent.includes('mq-deadline, writes: qd1')")
        get = lambda name: subprocess.check_output([zonal, "ctl", "control", "get", name], text=True).strip()
        assert (get("scheduler"), get("zone_write")) == ("mq-deadline", "qd1")
        browser.run(CHOOSE % ("true", "Fault", "fail=trim"))
        browser.wait(SAID + ".includes('fail=trim')")
        browser.run(CHOOSE % ("true", "Fault", "fail=write,zone=3,count=2"))
        browser.wait("return document.querySelector('.tiles').textContent.includes('1 fault rule')")
        browser.run("[...document.querySelectorAll('.control button')].find((button) => button.textContent === 'Clear faults').click()")
        browser.wait("return !document.querySelector('.tiles').textContent.includes('fault rule')")
        assert browser.errors() == [], browser.errors()
    print("controlled: the token, scheduler, zone writes and faults")


def main(zonal, where):
    with Browser() as browser:
        recorded(browser, zonal, where)
        reports(browser, zonal, where)
        served(browser, zonal, where)
        controlled(browser, zonal)
        # The end of a run is an error in the browser's log.
        running(browser, zonal)
        stalled(browser, zonal)


main(*sys.argv[1:])
