// Shows devices while they work, or recordings: the same plots of a list of frames, up to a moment.
'use strict';

// ---- what is shown -----------------------------------------------------------------------------
const KEPT = 900;                       // frames of a live device: three minutes
const $ = (id) => document.getElementById(id);
const state = { runs: [], live: false, control: false, paused: false, time: 0, span: 0, ranges: [], cells: new Map(), views: [], zones: 'active' };

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'text') node.textContent = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
};

// ---- numbers as text ---------------------------------------------------------------------------
const digits = (value) => (value >= 100 || value === 0 ? 0 : value >= 10 ? 1 : 2);
const scaled = (value, units, step) => {
  let at = 0;
  while (Math.abs(value) >= step && at < units.length - 1) { value /= step; at += 1; }
  return `${value.toFixed(units[at] === units[0] ? 0 : digits(Math.abs(value)))} ${units[at]}`.trim();
};
const count = (value) => (value < 10000 ? Math.round(value).toString() : scaled(value, ['', 'k', 'M', 'G'], 1000));
const BYTES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const bytes = (value) => scaled(value, BYTES, 1024);
const nanos = (value) => scaled(value, ['ns', 'µs', 'ms', 's'], 1000);
const seconds = (value) => {
  const s = value / 1e9;
  return s >= 3600 ? `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min` : s >= 1 || s === 0 ? `${s.toFixed(s < 100 ? 2 : 0)} s` : nanos(value);
};
const percent = (value) => `${value.toFixed(0)} %`;
// The same without zeros at the end, for axes.
const trimmed = (text) => text.replace(/(\.\d*?)0+(?= |$)/, '$1').replace(/\.(?= |$)/, '');

// ---- frames ------------------------------------------------------------------------------------
const percentile = (histogram, part) => {
  let total = 0;
  for (const [, n] of histogram) total += n;
  let left = total * part;
  for (const [range, n] of histogram) {
    left -= n;
    if (left <= 0) return (state.ranges[range] + (state.ranges[range + 1] || state.ranges[range] * 1.2)) / 2;
  }
  return null;
};
const together = ([reads, writes]) => {
  const sums = new Map();
  for (const [range, n] of [...reads, ...writes]) sums.set(range, (sums.get(range) || 0) + n);
  return [...sums].sort((a, b) => a[0] - b[0]);
};

// What a frame says of the time since the one before.
const derive = (run, frame) => {
  const before = run.frames[run.frames.length - 1];
  const seconds = before ? (frame.at - before.at) / 1e9 : 0;
  const rate = (name) => (seconds > 0 ? Math.max(0, frame.ios[name] - before.ios[name]) / seconds : 0);
  const all = together(frame.latency);
  frame.all = all;
  frame.d = {
    from: before ? before.at : frame.at,
    reads: rate('reads'), writes: rate('writes'), others: rate('others'),
    readBytes: rate('read_bytes'), writtenBytes: rate('written_bytes'),
    p50: percentile(all, 0.5), p99: percentile(all, 0.99),
  };
  const busy = before ? frame.busy.map(([name, time], at) => [name, seconds > 0 && before.busy[at] ? (time - before.busy[at][1]) / seconds / 1e9 * 100 : 0]) : [];
  // A device that is not polled does not know how long it has been idle: that is what the others leave.
  const used = busy.reduce((sum, [name, part]) => (name === 'idle' ? sum : sum + part), 0);
  frame.d.busy = busy.map(([name, part]) => [name, name === 'idle' ? Math.max(0, 100 - used) : part]);
};
const add = (run, frame) => {
  derive(run, frame);
  run.frames.push(frame);
  for (const event of frame.events) run.events.push(event);
  if (frame.more_events) run.events.push({ at: frame.at, zone: null, what: `${frame.more_events} more` });
  if (state.live && run.frames.length > KEPT) run.frames.shift();
  if (run.events.length > 2000) run.events.splice(0, run.events.length - 2000);
};
// The last frame at or before a time.
const frameAt = (run, time) => {
  let low = 0, high = run.frames.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.frames[middle].at <= time) low = middle + 1; else high = middle;
  }
  return run.frames[Math.max(0, low - 1)];
};
const limits = () => {
  const ends = state.runs.filter((run) => run.frames.length).map((run) => [run.frames[0].at, run.frames[run.frames.length - 1].at]);
  if (!ends.length) return [0, 1];
  return [Math.min(...ends.map((end) => end[0])), Math.max(...ends.map((end) => end[1]))];
};
// The times that the plots show.
const shown = () => {
  const [first, last] = limits();
  if (!state.span) return [first, Math.max(last, first + 1)];
  if (state.live) return [Math.max(first, state.time - state.span), Math.max(state.time, first + 1)];
  const from = Math.max(first, Math.min(state.time - state.span / 2, last - state.span));
  return [from, from + state.span];
};

// ---- drawing -----------------------------------------------------------------------------------
const theme = () => {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
};
const LEFT = 62, RIGHT = 10, BOTTOM = 22, TOP = 6;

const canvasOf = (plot, height) => {
  const canvas = plot.canvas, width = plot.box.clientWidth, ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = '11px system-ui, sans-serif';
  g.textBaseline = 'middle';
  return { g, width, height, left: LEFT, right: width - RIGHT, top: TOP, bottom: height - BOTTOM, ratio };
};
const steps = (from, to, most) => {
  const raw = (to - from) / most || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) || raw;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step / 1e6; at += step) found.push(at);
  return found;
};
const timeAxis = (c, [from, to], color) => {
  const { g } = c;
  c.x = (time) => c.left + (time - from) / (to - from) * (c.right - c.left);
  g.fillStyle = color('soft');
  g.strokeStyle = color('line');
  const places = steps(from / 1e9, to / 1e9, Math.max(2, (c.right - c.left) / 90));
  const range = (to - from) / 1e9, decimals = range > 20 ? 0 : Math.min(6, Math.max(0, Math.ceil(1 - Math.log10(range || 1)) + 1));
  let free = 0;
  for (const s of places) {
    const x = c.x(s * 1e9), text = trimmed(`${s.toFixed(decimals)} s`), half = g.measureText(text).width / 2;
    g.beginPath(); g.moveTo(x, c.bottom); g.lineTo(x, c.bottom + 4); g.stroke();
    if (x + half > c.width || x - half < free) continue;
    g.textAlign = 'center';
    g.fillText(text, x, c.bottom + 13);
    free = x + half + 8;
  }
  g.strokeRect(c.left, c.top, c.right - c.left, c.bottom - c.top);
};
// Steps of bytes are round in one unit, that of the largest.
const axisOf = (top, text) => {
  if (text !== bytes) return [1, (value) => trimmed(text(value))];
  const power = Math.min(BYTES.length - 1, Math.floor(Math.log(Math.max(1, top)) / Math.log(1024)));
  const unit = 1024 ** power;
  return [unit, (value) => trimmed(`${(value / unit).toFixed(3)} ${BYTES[power]}`)];
};
const valueAxis = (c, top, text, color, bottom = 0) => {
  const { g } = c;
  c.y = (value) => c.bottom - (value - bottom) / (top - bottom || 1) * (c.bottom - c.top);
  g.textAlign = 'right';
  const [unit, label] = axisOf(top, text);
  for (const value of steps(bottom / unit, top / unit, 4).map((value) => value * unit)) {
    const y = c.y(value);
    g.strokeStyle = color('line'); g.globalAlpha = 0.7;
    g.beginPath(); g.moveTo(c.left, y); g.lineTo(c.right, y); g.stroke();
    g.globalAlpha = 1; g.fillStyle = color('soft');
    g.fillText(label(value), c.left - 5, y);
  }
};
// What the colours and lines of a plot mean: below it, unless it is there already.
const showLegend = (plot, entries) => {
  const key = JSON.stringify(entries);
  if (plot.legendKey === key) return;
  plot.legendKey = key;
  plot.legend.replaceChildren(...entries.map(({ name, color, dash, dot, ramp }) => {
    const mark = make('i', { class: ramp ? 'ramp' : dot ? 'dot' : 'stroke' });
    if (ramp) mark.style.background = `linear-gradient(to right, ${[0.1, 0.3, 0.5, 0.75, 1].map((part) => `rgb(${heat(part).join(' ')})`).join(', ')})`;
    else if (dot) mark.style.background = `var(--${color})`;
    else mark.append(stroke(color, dash));
    return make('li', {}, mark, name);
  }));
};
const stroke = (color, dash) => {
  const part = (tag, attributes) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const svg = part('svg', { width: 26, height: 8, 'aria-hidden': true });
  const line = part('line', { x1: 0, y1: 4, x2: 26, y2: 4, 'stroke-width': 2, 'stroke-dasharray': (dash || []).join(' ') });
  line.style.stroke = `var(--${color})`;
  svg.append(line);
  return svg;
};
// The scale of a picture of amounts.
const scaleOf = (most, text, window, columns) => ({
  ramp: true, name: most > 0 ? `up to ${text(most)} in ${nanos((window[1] - window[0]) / columns)}, logarithmic` : 'nothing',
});
// Lines over time. The first ones are wider and those after them have gaps, so that lines on one another are
// all seen; the legend names those that coincide.
const drawLines = (plot, run, lines, text) => {
  const color = theme(), c = canvasOf(plot, 150), window = shown();
  const frames = run.frames.filter((frame) => frame.at >= window[0] && frame.d.from <= window[1]);
  let top = 0;
  for (const { value } of lines) for (const frame of frames) top = Math.max(top, value(frame) ?? 0);
  top = top > 0 ? top * 1.08 : 1;
  valueAxis(c, top, text, color);
  timeAxis(c, window, color);
  const { g } = c, drawn = [], entries = [];
  g.save(); g.beginPath(); g.rect(c.left, c.top, c.right - c.left, c.bottom - c.top); g.clip();
  lines.forEach((line, at) => {
    g.strokeStyle = color(line.color); g.lineWidth = Math.max(1.2, 2.1 - 0.3 * at); g.setLineDash(line.dash || []);
    g.beginPath();
    let last = null;
    const values = frames.map((frame) => line.value(frame) ?? null);
    values.forEach((value, nr) => {
      if (value === null) { last = null; return; }
      const x = c.x(frames[nr].at), y = c.y(value);
      if (last === null) g.moveTo(x, y); else g.lineTo(x, y);
      last = y;
    });
    g.stroke();
    const same = drawn.find((before) => before.values.length && before.values.every((value, nr) => value === values[nr]));
    entries.push({ name: same ? `${line.name} (same as ${same.name})` : line.name, color: line.color, dash: line.dash });
    drawn.push({ name: line.name, values });
  });
  g.restore(); g.setLineDash([]); g.lineWidth = 1;
  showLegend(plot, entries);
};
// From few to many, readable by all and on both backgrounds (after viridis).
const HEAT = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const heat = (part) => {
  const place = Math.min(0.9999, Math.max(0, part)) * (HEAT.length - 1), at = Math.floor(place), rest = place - at;
  return HEAT[at].map((from, channel) => Math.round(from + (HEAT[at + 1][channel] - from) * rest));
};
// A picture of `rows` by columns of time; `each(frame, put)` puts amounts into rows.
const drawHeat = (plot, run, c, window, rows, text, each) => {
  const columns = Math.max(1, Math.floor(c.right - c.left));
  const sums = new Float64Array(columns * rows);
  let most = 0;
  for (const frame of run.frames) {
    if (frame.at < window[0] || frame.d.from > window[1]) continue;
    const column = (time) => Math.min(columns - 1, Math.max(0, Math.floor((time - window[0]) / (window[1] - window[0]) * columns)));
    const first = column(frame.d.from), last = Math.max(first, column(frame.at) - 1), share = last - first + 1;
    each(frame, (row, amount) => {
      for (let x = first; x <= last; x += 1) {
        const value = (sums[row * columns + x] += amount / share);
        if (value > most) most = value;
      }
    });
  }
  const picture = document.createElement('canvas');
  picture.width = columns; picture.height = rows;
  const g = picture.getContext('2d'), pixels = g.createImageData(columns, rows);
  const top = Math.log1p(most);
  for (let at = 0; at < sums.length; at += 1) {
    if (sums[at] <= 0) continue;
    const [red, green, blue] = heat(0.1 + 0.9 * Math.log1p(sums[at]) / top);
    pixels.data.set([red, green, blue, 255], at * 4);
  }
  g.putImageData(pixels, 0, 0);
  c.g.imageSmoothingEnabled = false;
  c.g.drawImage(picture, c.left, c.top, c.right - c.left, c.bottom - c.top);
  return scaleOf(most, text, window, columns);
};
// The cells that the plot of writes has, as bands from top to bottom: those that were written in the time that
// is shown, since of 111,760 zones a few jobs write some. Bands that are near are one.
const MOST_BANDS = 8, BAND_GAP = 7, LEAST_BAND = 14;
const bandsOf = (run, window, cells) => {
  const written = new Set();
  if (state.zones === 'active') {
    for (const frame of run.frames) {
      if (frame.at >= window[0] && frame.d.from <= window[1]) for (const [cell] of frame.written) written.add(cell);
    }
  }
  if (!written.size) return [[0, cells - 1]];
  const sorted = [...written].sort((a, b) => a - b), bands = [];
  for (const cell of sorted) {
    const band = bands[bands.length - 1];
    if (band && cell - band[1] <= Math.max(3, cells / 50)) band[1] = cell; else bands.push([cell, cell]);
  }
  while (bands.length > MOST_BANDS) {
    const gaps = bands.slice(1).map((band, at) => band[0] - bands[at][1]);
    const at = gaps.indexOf(Math.min(...gaps));
    bands.splice(at, 2, [bands[at][0], bands[at + 1][1]]);
  }
  return bands;
};
// Bands with the rows of pixels that they have.
const placed = (bands, height) => {
  const all = bands.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  const free = height - BAND_GAP * (bands.length - 1) - LEAST_BAND * bands.length;
  let row = 0;
  return bands.map(([first, last]) => {
    const rows = Math.floor(LEAST_BAND + free * (last - first + 1) / all), top = row;
    row += rows + BAND_GAP;
    const place = (cell) => top + Math.floor((cell - first) * rows / (last - first + 1));
    return { first, last, top, bottom: top + rows, rowsOf: (cell) => [place(cell), Math.max(place(cell), place(cell + 1) - 1)] };
  });
};
// Zone numbers beside the bands: where there is room, at round numbers; else where a band begins.
const zoneAxis = (c, bands, run, color) => {
  const { g } = c, per = run.info.zones_per_cell;
  g.textAlign = 'right'; g.fillStyle = color('soft'); g.strokeStyle = color('line');
  bands.forEach((band, at) => {
    const first = band.first * per, zones = Math.min((band.last + 1) * per, run.info.zones) - first, high = band.bottom - band.top;
    const round = high < 60 ? [] : steps(first, first + zones - 1, high / 40).filter((zone) => Number.isInteger(zone));
    for (const zone of round.length ? round : [first]) {
      const y = round.length ? c.top + band.top + (zone - first + 0.5) / zones * high : c.top + band.top + Math.min(high / 2, 7);
      g.fillText(String(zone), c.left - 5, Math.min(Math.max(y, c.top + 5), c.bottom - 5));
    }
    if (at === 0) return;
    g.setLineDash([3, 3]); g.beginPath();
    g.moveTo(c.left, c.top + band.top - BAND_GAP / 2); g.lineTo(c.right, c.top + band.top - BAND_GAP / 2);
    g.stroke(); g.setLineDash([]);
  });
};

// The part of the radius that a plot of the head has, in 1/10000.
const reach = (points) => {
  if (state.zones === 'all' || !points.length) return [0, 10000];
  const radii = points.map(([, radius]) => radius);
  const outer = radii.reduce((least, radius) => Math.min(least, radius)), inner = radii.reduce((most, radius) => Math.max(most, radius));
  const margin = Math.max(50, (inner - outer) / 20);
  return [Math.max(0, outer - margin), Math.min(10000, inner + margin)];
};

// ---- plots: each draws a run, and has its rows as a table --------------------------------------
const PLOTS = [
  {
    id: 'heat', title: 'Write activity', unit: 'zones over time; a dashed line stands for zones that were not written', wide: true,
    wanted: (run) => run.info.zones > 0,
    draw(plot, run) {
      const color = theme(), c = canvasOf(plot, 220), window = shown();
      const cells = Math.ceil(run.info.zones / run.info.zones_per_cell), rows = Math.floor(c.bottom - c.top);
      const bands = placed(bandsOf(run, window, cells), rows);
      const scale = drawHeat(plot, run, c, window, rows, (sectors) => bytes(sectors * 512), (frame, put) => {
        for (const [cell, sectors] of frame.written) {
          const band = bands.find(({ first, last }) => first <= cell && cell <= last);
          if (!band) continue;
          const [first, last] = band.rowsOf(cell);
          for (let row = first; row <= last; row += 1) put(row, sectors);
        }
      });
      zoneAxis(c, bands, run, color);
      timeAxis(c, window, color);
      const per = run.info.zones_per_cell;
      if (per > 1) scale.name += `; ${per} zones in a row`;
      showLegend(plot, [scale]);
    },
    say: (run, frame) => `${frame.written.length} of the map's cells written in the last interval`,
    head: ['time', 'cells written', 'most written: zone', 'bytes'],
    row: (frame, run) => {
      const most = frame.written.reduce((best, entry) => (entry[1] > best[1] ? entry : best), [0, 0]);
      return [seconds(frame.at), frame.written.length, most[1] ? most[0] * run.info.zones_per_cell : '', bytes(most[1] * 512)];
    },
  },
  {
    id: 'head', title: 'Head position', unit: 'from the outer edge, 0 %, to the inner one, 100 %', wide: true,
    wanted: (run) => run.frames.some((frame) => frame.head.length),
    draw(plot, run) {
      const color = theme(), c = canvasOf(plot, 200), window = shown(), { g } = c;
      timeAxis(c, window, color);
      const points = run.frames.flatMap((frame) => frame.head).filter(([at]) => at >= window[0] && at <= window[1]);
      const [outer, inner] = reach(points);
      const y = (radius) => c.top + 4 + (radius - outer) / (inner - outer) * (c.bottom - c.top - 8);
      g.fillStyle = color('soft'); g.textAlign = 'right';
      for (const part of steps(outer / 100, inner / 100, 5)) g.fillText(trimmed(`${part.toFixed(2)} %`), c.left - 5, y(part * 100));
      g.save(); g.beginPath(); g.rect(c.left, c.top, c.right - c.left, c.bottom - c.top); g.clip();
      g.strokeStyle = color('a'); g.fillStyle = color('a');
      g.globalAlpha = Math.max(0.06, Math.min(0.7, 600 / points.length)); g.lineWidth = 0.7; g.beginPath();
      points.forEach(([at, radius], number) => (number ? g.lineTo(c.x(at), y(radius)) : g.moveTo(c.x(at), y(radius))));
      g.stroke();
      g.globalAlpha = Math.max(0.4, Math.min(1, 2000 / points.length));
      for (const [at, radius] of points) g.fillRect(c.x(at) - 0.8, y(radius) - 0.8, 1.6, 1.6);
      g.restore(); g.globalAlpha = 1; g.lineWidth = 1;
      showLegend(plot, [{ name: 'access', color: 'a', dot: true }, { name: 'move to the next access', color: 'a' }]);
    },
    say: (run, frame) => (frame.head.length ? `${frame.head.length} accesses at ${percent(frame.head[frame.head.length - 1][1] / 100)} of the way in` : 'the head did not access the disk'),
    head: ['time', 'accesses seen', 'outermost', 'innermost', 'mean way between two'],
    row: (frame) => {
      const radii = frame.head.map(([, radius]) => radius / 100);
      const way = radii.slice(1).reduce((sum, radius, at) => sum + Math.abs(radius - radii[at]), 0) / Math.max(1, radii.length - 1);
      return [seconds(frame.at), radii.length, radii.length ? percent(Math.min(...radii)) : '', radii.length ? percent(Math.max(...radii)) : '', `${way.toFixed(1)} %`];
    },
  },
  {
    id: 'rate', title: 'Bandwidth', unit: 'bytes a second', wanted: () => true,
    draw(plot, run) {
      drawLines(plot, run, [
        { name: 'writes', color: 'b', value: (frame) => frame.d.writtenBytes },
        { name: 'reads', color: 'a', dash: [5, 3], value: (frame) => frame.d.readBytes },
      ], bytes);
    },
    say: (run, frame) => `reads ${bytes(frame.d.readBytes)} a second, writes ${bytes(frame.d.writtenBytes)} a second`,
    head: ['time', 'reads/s', 'read bytes/s', 'writes/s', 'written bytes/s', 'others/s'],
    row: (frame) => [seconds(frame.at), count(frame.d.reads), bytes(frame.d.readBytes), count(frame.d.writes), bytes(frame.d.writtenBytes), count(frame.d.others)],
  },
  {
    id: 'iops', title: 'I/Os', unit: 'a second', wanted: () => true,
    draw(plot, run) {
      drawLines(plot, run, [
        { name: 'writes', color: 'b', value: (frame) => frame.d.writes },
        { name: 'reads', color: 'a', dash: [5, 3], value: (frame) => frame.d.reads },
      ], count);
    },
    say: (run, frame) => `${count(frame.d.reads)} reads and ${count(frame.d.writes)} writes a second`,
    head: ['time', 'reads', 'writes', 'others', 'failed'],
    row: (frame) => [seconds(frame.at), frame.ios.reads, frame.ios.writes, frame.ios.others, frame.ios.failures],
  },
  {
    id: 'latency', title: 'Device latency', unit: 'number of requests by the time that they took', wanted: () => true,
    draw(plot, run) {
      const color = theme(), c = canvasOf(plot, 180), window = shown();
      let low = state.ranges.length - 1, high = 0;
      for (const frame of run.frames) for (const [range] of frame.all) { low = Math.min(low, range); high = Math.max(high, range); }
      if (low > high) { low = 20; high = 60; }
      low = Math.max(0, low - 2); high = Math.min(state.ranges.length - 1, high + 2);
      const rows = high - low + 1;
      const scale = drawHeat(plot, run, c, window, rows, (n) => `${count(n)} requests`, (frame, put) => {
        for (const [range, n] of frame.all) put(high - range, n);
      });
      const from = Math.log2(state.ranges[low]), to = Math.log2(state.ranges[high] * 1.19);
      const y = (time) => c.bottom - (Math.log2(time) - from) / (to - from) * (c.bottom - c.top);
      c.g.textAlign = 'right'; c.g.fillStyle = color('soft');
      const decades = Math.log10(state.ranges[high] / state.ranges[low]), digits = decades < 1.5 ? [1, 2, 5] : [1];
      for (const time of Array.from({ length: 10 }, (_, at) => 10 ** (at + 2)).flatMap((power) => digits.map((digit) => digit * power))) {
        if (time < state.ranges[low] || time > state.ranges[high]) continue;
        c.g.fillText(trimmed(nanos(time)), c.left - 5, y(time));
        c.g.strokeStyle = color('line'); c.g.beginPath(); c.g.moveTo(c.left - 3, y(time)); c.g.lineTo(c.left, y(time)); c.g.stroke();
      }
      timeAxis(c, window, color);
      const lines = [{ name: 'median (p50)', color: 'text', key: 'p50' }, { name: '99th percentile (p99)', color: 'explicit-open', key: 'p99', dash: [4, 3] }];
      lines.forEach((line, at) => {
        c.g.strokeStyle = color(line.color); c.g.setLineDash(line.dash || []); c.g.lineWidth = at ? 1.4 : 2.2; c.g.beginPath();
        let last = null;
        for (const frame of run.frames) {
          const value = frame.d[line.key];
          if (value === null || frame.at < window[0] || frame.at > window[1]) continue;
          if (last === null) c.g.moveTo(c.x(frame.at), y(value)); else c.g.lineTo(c.x(frame.at), y(value));
          last = y(value);
        }
        c.g.stroke();
      });
      c.g.setLineDash([]); c.g.lineWidth = 1;
      showLegend(plot, [...lines.map(({ name, color, dash }) => ({ name, color, dash })), scale]);
    },
    say: (run, frame) => (frame.d.p50 === null ? 'no requests in the last interval' : `median ${nanos(frame.d.p50)}, 99th percentile ${nanos(frame.d.p99)}`),
    head: ['time', 'requests', 'p50', 'p99', 'p99.9'],
    row: (frame) => {
      const at = (part) => { const value = percentile(frame.all, part); return value === null ? '' : nanos(value); };
      return [seconds(frame.at), frame.all.reduce((sum, [, n]) => sum + n, 0), at(0.5), at(0.99), at(0.999)];
    },
  },
  {
    id: 'queues', title: 'In flight', unit: 'requests with the device, and writes that wait', wanted: () => true,
    draw(plot, run) {
      drawLines(plot, run, [
        { name: 'in flight', color: 'a', value: (frame) => frame.in_flight },
        { name: 'waiting in plugs', color: 'b', dash: [5, 3], value: (frame) => frame.waiting },
        { name: 'plugs in use', color: 'c', dash: [2, 2], value: (frame) => frame.live_plugs },
      ], count);
    },
    say: (run, frame) => `${frame.in_flight} requests in flight, ${frame.waiting} writes wait in ${frame.live_plugs} plugs`,
    head: ['time', 'in flight', 'waiting in plugs', 'plugs in use', 'longest plugs (zone: writes)'],
    row: (frame) => [seconds(frame.at), frame.in_flight, frame.waiting, frame.live_plugs, frame.plugs.map(([zone, waiting]) => `${zone}: ${waiting}`).join(', ')],
  },
  {
    id: 'inside', title: 'Inside the device', unit: 'how full it is, and its part of the time',
    wanted: (run) => run.frames.some((frame) => frame.levels.length || frame.d.busy.length),
    draw(plot, run) {
      const last = run.frames[run.frames.length - 1];
      const styles = [['b'], ['c', [5, 3]], ['a', [2, 2]], ['d', [7, 2, 2, 2]], ['explicit-open', [3, 3]], ['soft']];
      const levels = last.levels.map(([name], at) => ({ name, value: (frame) => (frame.levels[at] ? frame.levels[at][1] / (frame.levels[at][2] || 1) * 100 : null) }));
      const busy = last.busy.map(([name], at) => ({ name, value: (frame) => (frame.d.busy[at] ? frame.d.busy[at][1] : null) }));
      const lines = [...levels, ...busy].slice(0, styles.length).map((line, at) => ({ ...line, name: line.name, color: styles[at][0], dash: styles[at][1] }));
      drawLines(plot, run, lines, percent);
    },
    say: (run, frame) => frame.levels.map(([name, value, of]) => `${name}: ${count(value)} of ${count(of)}`).join('; '),
    head: ['time', 'levels', 'busy', 'counters'],
    row: (frame) => [seconds(frame.at), frame.levels.map(([name, value, of]) => `${name} ${value} of ${of}`).join(', '),
      frame.d.busy.map(([name, part]) => `${name} ${percent(part)}`).join(', '), frame.counts.map(([name, n]) => `${name} ${n}`).join(', ')],
  },
];

// ---- the map of zones --------------------------------------------------------------------------
const nameOf = (letter) => state.cells.get(letter) || 'conventional';
const variable = (name) => name.replaceAll(' ', '-');
const fillOf = (frame, cell) => (frame.filled.charCodeAt(cell) - 35) / 90;
const mapShape = (view, cells) => {
  const width = Math.max(60, view.map.box.clientWidth);
  const size = Math.max(5, Math.min(22, Math.floor(Math.sqrt(width * 190 / cells))));
  const columns = Math.max(1, Math.floor(width / size));
  return { size, columns, rows: Math.ceil(cells / columns) };
};
const drawMap = (view, run, frame) => {
  const cells = frame.conditions.length, { size, columns, rows } = mapShape(view, cells), color = theme();
  const { g } = canvasOf(view.map, rows * size + 1);
  for (let cell = 0; cell < cells; cell += 1) {
    const letter = frame.conditions[cell], name = variable(nameOf(letter));
    const x = (cell % columns) * size, y = Math.floor(cell / columns) * size, inner = size - 1;
    g.fillStyle = color('empty'); g.fillRect(x, y, inner, inner);
    g.fillStyle = color(name);
    const part = letter === '.' ? 0 : 'oOc+'.includes(letter) ? Math.max(0.15, fillOf(frame, cell)) : 1;
    const high = Math.max(part > 0 ? 1 : 0, Math.round(part * inner));
    g.fillRect(x, y + inner - high, inner, high);
    if ('oOc'.includes(letter)) { g.strokeStyle = color(name); g.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1); }
    if (size >= 12 && 'oOcrx-'.includes(letter)) {
      g.fillStyle = color(letter === 'x' ? 'back' : 'text'); g.textAlign = 'center'; g.fillText(letter, x + inner / 2, y + inner / 2);
    }
  }
  const x = (view.cell % columns) * size, y = Math.floor(view.cell / columns) * size;
  if (view.selected) { g.strokeStyle = color('text'); g.lineWidth = 2; g.strokeRect(x, y, size - 1, size - 1); g.lineWidth = 1; }
};
const sayCell = (view, run, frame) => {
  if (!view.selected) return;
  const per = run.info.zones_per_cell, first = view.cell * per, last = Math.min(first + per, run.info.zones) - 1;
  const zones = first === last ? `zone ${first}` : `zones ${first} to ${last}`;
  view.say.textContent = `${zones}: ${nameOf(frame.conditions[view.cell])}, ${percent(fillOf(frame, view.cell) * 100)} written`;
};
const select = (view, run, cell) => {
  const frame = frameAt(run, state.time);
  if (!frame) return;
  view.cell = Math.max(0, Math.min(cell, frame.conditions.length - 1));
  view.selected = true;
  sayCell(view, run, frame); drawMap(view, run, frame);
};
const makeMap = (view, run) => {
  const canvas = make('canvas', { role: 'img', tabindex: 0, 'aria-label': 'Map of zones. Arrow keys select one.', 'aria-describedby': `say-${view.number}` });
  const box = make('div', { class: 'plot' }, canvas);
  view.map = { canvas, box };
  view.cell = 0; view.selected = false;
  view.say = make('output', { class: 'note', id: `say-${view.number}`, text: 'Arrow keys or a click select a zone.' });
  canvas.addEventListener('keydown', (event) => {
    const { columns } = mapShape(view, Math.ceil(run.info.zones / run.info.zones_per_cell));
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -1e9, End: 1e9 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    select(view, run, view.cell + by);
  });
  canvas.addEventListener('click', (event) => {
    const { size, columns } = mapShape(view, Math.ceil(run.info.zones / run.info.zones_per_cell));
    select(view, run, Math.floor(event.offsetY / size) * columns + Math.floor(event.offsetX / size));
  });
  const legend = make('ul', { class: 'legend' });
  for (const name of state.cells.values()) {
    const swatch = make('i');
    swatch.style.background = `var(--${variable(name)})`;
    legend.append(make('li', {}, swatch, name));
  }
  const table = make('tbody');
  view.conditions = table;
  return make('figure', { class: 'wide' },
    make('figcaption', {}, 'Zones ', make('small', { text: run.info.zones_per_cell > 1 ? `${run.info.zones_per_cell} in a cell` : 'one in a cell' })),
    box, view.say, legend,
    make('details', {}, make('summary', { text: 'Table: zones by condition' }),
      make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', { text: 'condition' }), make('th', { text: 'zones' }))), table))));
};

// ---- a run -------------------------------------------------------------------------------------
const since = (run) => (run.info.while_watched ? ', while watched' : '');
const TILES = [
  ['Writes', (frame) => [count(frame.d.writes), `/s, ${bytes(frame.d.writtenBytes)}/s`]],
  ['Reads', (frame) => [count(frame.d.reads), `/s, ${bytes(frame.d.readBytes)}/s`]],
  ['Device latency', (frame) => (frame.d.p50 === null ? ['none', ''] : [nanos(frame.d.p50), ` p50, ${nanos(frame.d.p99)} p99`])],
  ['In flight', (frame) => [count(frame.in_flight), `, ${count(frame.waiting)} waiting in ${count(frame.live_plugs)} plugs`]],
  ['Open zones', (frame, run) => [count(frame.zones[2] + frame.zones[3]), run.info.max_open ? ` of ${run.info.max_open}` : ', no limit']],
  ['Active zones', (frame, run) => [count(frame.zones[2] + frame.zones[3] + frame.zones[4]), run.info.max_active ? ` of ${run.info.max_active}` : ', no limit']],
  ['Written so far', (frame, run) => [bytes(frame.ios.written_bytes), ` in ${frame.ios.writes} writes${since(run)}`]],
  ['Read so far', (frame, run) => [bytes(frame.ios.read_bytes), ` in ${frame.ios.reads} reads${since(run)}`]],
  ['Failed', (frame) => [count(frame.ios.failures), frame.faults ? `, ${frame.faults} fault rule${frame.faults === 1 ? '' : 's'}` : '']],
  ['Scheduler', (frame) => [frame.scheduler, `, writes: ${frame.zone_write}`]],
];
const makePlot = (view, plot) => {
  const canvas = make('canvas', { role: 'img', 'aria-label': plot.title });
  const cursor = make('div', { class: 'cursor', hidden: '' });
  const box = make('div', { class: 'plot' }, canvas, cursor), legend = make('ul', { class: 'legend' });
  const body = make('tbody');
  const details = make('details', {}, make('summary', { text: `Table: ${plot.title}` }),
    make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `${plot.title}, as a table` }, make('table', {},
      make('thead', {}, make('tr', {}, ...plot.head.map((text) => make('th', { text, scope: 'col' })))), body)));
  const figure = make('figure', { class: plot.wide ? 'wide' : '', id: `${plot.id}-${view.number}` },
    make('figcaption', {}, `${plot.title} `, make('small', { text: plot.unit })), box, legend, details);
  const made = { ...plot, canvas, box, cursor, legend, body, details, figure };
  details.addEventListener('toggle', () => fillTable(view, made));
  return made;
};
const fillTable = (view, plot) => {
  if (!plot.details.open) return;
  const [from, to] = shown(), frames = view.run.frames.filter((frame) => frame.at >= from && frame.at <= to);
  const every = Math.max(1, Math.ceil(frames.length / 60));
  const rows = frames.filter((frame, at) => (frames.length - 1 - at) % every === 0);
  if (state.live) rows.reverse();
  plot.body.replaceChildren(...rows.map((frame) => make('tr', {}, ...plot.row(frame, view.run).map((text) => make('td', { text: String(text) })))));
};
const makeRun = (run, number) => {
  const view = { run, number, drawn: 0 };
  view.tiles = TILES.map(([name]) => {
    const strong = make('b'), rest = make('span');
    return { strong, rest, node: make('div', {}, make('dt', { text: name }), make('dd', {}, strong, rest)) };
  });
  view.plots = PLOTS.map((plot) => makePlot(view, plot));
  view.eventList = make('ol', { class: 'events', tabindex: 0, 'aria-label': 'Events' });
  view.events = 0;
  const panels = make('div', { class: 'panels' });
  if (run.info.zones) panels.append(makeMap(view, run));
  panels.append(...view.plots.map((plot) => plot.figure));
  panels.append(make('figure', { class: 'wide' }, make('figcaption', {}, 'Events ', make('small', { text: 'what was seen between two frames' })), view.eventList));
  view.error = make('p', { class: 'error', role: 'alert' });
  const section = make('section', { class: 'run', 'aria-label': run.info.name },
    make('h2', { text: run.info.name }), make('p', { text: [run.info.description, run.title].filter(Boolean).join(' · ') }),
    view.error, make('dl', { class: 'tiles' }, ...view.tiles.map((tile) => tile.node)));
  if (state.control) section.append(makeControl(number));
  section.append(panels);
  $('runs').append(section);
  return view;
};
const showRun = (view, all) => {
  const { run } = view, frame = frameAt(run, state.time);
  if (!frame) return;
  TILES.forEach(([, text], at) => {
    const [strong, rest] = text(frame, run);
    if (view.tiles[at].strong.textContent !== strong) view.tiles[at].strong.textContent = strong;
    view.tiles[at].rest.textContent = rest;
  });
  view.error.textContent = frame.error || '';
  if (run.info.zones) {
    drawMap(view, run, frame);
    sayCell(view, run, frame);
    view.conditions.replaceChildren(...frame.zones.map((zones, at) => make('tr', {}, make('td', { text: state.conditions[at] }), make('td', { text: String(zones) }))));
  }
  for (const plot of view.plots) {
    plot.figure.hidden = !plot.wanted(run);
    if (plot.figure.hidden) continue;
    if (all) { plot.draw(plot, run); if (state.live) fillTable(view, plot); }
    plot.canvas.setAttribute('aria-label', `${plot.title}: ${plot.say(run, frame)}`);
    const [from, to] = shown(), width = plot.box.clientWidth - LEFT - RIGHT;
    plot.cursor.hidden = state.live && !state.paused;
    plot.cursor.style.left = `${LEFT + Math.max(0, Math.min(1, (state.time - from) / (to - from))) * width}px`;
  }
  showEvents(view);
};
const showEvents = (view) => {
  const { run } = view, newest = run.events[run.events.length - 1];
  if (view.newest === newest && view.newest !== undefined) return;
  view.newest = newest;
  const text = (event) => (event.zone === null ? event.what : `zone ${event.zone}: ${event.what}`);
  const list = state.live ? run.events.slice(-200).reverse() : run.events.slice(0, 1000);
  view.eventList.replaceChildren(...list.map((event) => make('li', {},
    make('button', { type: 'button', text: seconds(event.at), 'aria-label': `Go to ${seconds(event.at)}`, onclick: () => go(event.at) }), make('span', { text: text(event) }))));
  if (!list.length) view.eventList.append(make('li', { text: 'none yet' }));
};

// ---- changing a device -------------------------------------------------------------------------
const makeControl = (number) => {
  const result = make('output', { class: 'note' });
  const send = async (...command) => {
    if (!window.confirm(`Execute "${command.join(' ')}"?`)) return;
    const response = await fetch(`command${location.search}`, { method: 'POST', body: JSON.stringify({ device: number + 1, command }) });
    const answer = await response.json().catch(() => ({ error: response.statusText }));
    result.textContent = answer.error || 'done';
  };
  const choice = (label, name, values) => {
    const list = make('select', {}, ...values.map((value) => make('option', { text: value })));
    return make('label', {}, `${label} `, list, ' ', make('button', { type: 'button', text: 'Set', onclick: () => send('set', name, list.value) }));
  };
  const rule = make('input', { size: 24, placeholder: 'fail=write,zone=3,count=2' });
  return make('details', {}, make('summary', { text: 'Change the device' }), make('div', { class: 'control' },
    choice('Scheduler', 'scheduler', state.schedulers), choice('Zone writes', 'zone_write', state.policies),
    make('label', {}, 'Fault ', rule, ' ', make('button', { type: 'button', text: 'Add', onclick: () => send('fault', 'add', rule.value) })),
    make('button', { type: 'button', text: 'Clear faults', onclick: () => send('fault', 'clear') }), result));
};

// ---- time --------------------------------------------------------------------------------------
const show = (all = true) => {
  const [first, last] = limits(), slider = $('time');
  slider.value = String(Math.round((state.time - first) / Math.max(1, last - first) * 1000));
  slider.setAttribute('aria-valuetext', seconds(state.time));
  $('now').textContent = seconds(state.time);
  state.views.forEach((view) => showRun(view, all));
};
const pause = (paused) => {
  state.paused = paused;
  $('play').textContent = paused ? 'Play' : 'Pause';
  $('play').setAttribute('aria-pressed', String(paused));
};
const go = (time) => { pause(true); state.time = time; show(state.live || Boolean(state.span)); };
const play = () => {
  let last = performance.now(), drawn = 0;
  const tick = (now) => {
    const [, end] = limits();
    if (!state.paused) {
      state.time = Math.min(end, state.time + (now - last) * 1e6 * Number($('speed').value));
      if (state.time >= end) pause(true);
      if (now - drawn > 60 || state.paused) { drawn = now; show(Boolean(state.span)); }
    }
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
};
const setUp = (data) => {
  const { live, control, ranges, conditions, schedulers, policies } = data;
  Object.assign(state, { live, control, ranges, conditions, schedulers, policies, cells: new Map(data.cells) });
  const names = data.runs.map((run) => run.info.name).join(' and ');
  document.title = `${names} – Zonal`;
  $('title').textContent = `Zonal ${data.version}`;
  for (const { title, clock, info, frames } of data.runs) {
    const run = { title, clock, info, frames: [], events: [] };
    state.runs.push(run);
    frames.forEach((frame) => add(run, frame));
  }
  const spans = state.live ? [[10e9, '10 s'], [60e9, 'a minute'], [0, 'three minutes']] : [[0, 'the whole run'], [60e9, 'a minute'], [10e9, '10 s'], [1e9, '1 s'], [1e8, '100 ms']];
  $('window').append(...spans.map(([span, text]) => make('option', { value: span, text })));
  if (state.live) $('window').value = '60000000000';
  state.span = Number($('window').value);
  $('time').max = '1000';
  $('speedbox').hidden = state.live;
  state.views = state.runs.map(makeRun);
  $('play').addEventListener('click', () => {
    const [first, last] = limits();
    pause(!state.paused);
    if (!state.paused) state.time = state.live ? last : state.time >= last ? first : state.time;
    show();
  });
  $('time').addEventListener('input', (event) => {
    const [first, last] = limits();
    go(first + Number(event.target.value) / 1000 * (last - first));
  });
  $('zonesbox').hidden = !state.runs.some((run) => run.info.zones);
  $('zones').addEventListener('change', () => { state.zones = $('zones').value; show(); });
  $('window').addEventListener('change', () => { state.span = Number($('window').value); show(); });
  new ResizeObserver(() => show()).observe($('runs'));
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => show());
  window.addEventListener('beforeprint', () => show());
  if (state.live) listen(); else { $('state').textContent = `recorded in ${data.runs[0].clock} time`; pause(true); state.time = limits()[1]; show(); play(); }
};
const listen = () => {
  const source = new EventSource(`frames${location.search}`);
  let waiting = false;
  source.onopen = () => { $('state').textContent = 'live'; };
  source.onerror = () => { $('state').textContent = 'the device is not served any more, or too many look'; };
  source.onmessage = (event) => {
    JSON.parse(event.data).forEach((frame, at) => add(state.runs[at], frame));
    if (!state.paused) state.time = limits()[1];
    if (state.paused || waiting || document.hidden) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; show(); });
  };
};
const begin = async () => {
  try {
    const embedded = $('runs-data');
    if (embedded) { setUp(JSON.parse(embedded.textContent)); return; }
    const response = await fetch(`runs${location.search}`);
    if (!response.ok) throw new Error(await response.text());
    setUp(await response.json());
  } catch (error) {
    $('state').textContent = `cannot show anything: ${error.message}`;
  }
};
begin();
