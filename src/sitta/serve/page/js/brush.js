/** Drawing on a mask: one class a pixel, row by row. Pure. */

/** @typedef {{values: Uint8Array, width: number, height: number}} Map2 */

/**
 * Paint along a line, as a round brush does it.
 * @param {Map2} map
 * @param {{x: number, y: number}} from in pixels of the image
 * @param {{x: number, y: number}} to
 * @param {number} radius in columns; the smallest brush paints one pixel
 * @param {number} ratio height by width of a pixel
 * @param {number} label 0 erases
 */
export function stroke({ values, width, height }, from, to, radius, ratio, label) {
  radius = Math.max(radius, 0.71); // reaches the middle of the nearest pixel from anywhere
  const [dx, dy] = [to.x - from.x, (to.y - from.y) * ratio];
  const length = dx * dx + dy * dy;
  const low = (a, b, by) => Math.floor(Math.min(a, b) - by - 1);
  const high = (a, b, by) => Math.ceil(Math.max(a, b) + by + 1);
  const tall = radius / ratio;
  for (let y = Math.max(0, low(from.y, to.y, tall)); y < Math.min(height, high(from.y, to.y, tall)); y++) {
    for (let x = Math.max(0, low(from.x, to.x, radius)); x < Math.min(width, high(from.x, to.x, radius)); x++) {
      const [px, py] = [x + 0.5 - from.x, (y + 0.5 - from.y) * ratio];
      const along = length ? Math.min(1, Math.max(0, (px * dx + py * dy) / length)) : 0;
      if ((px - along * dx) ** 2 + (py - along * dy) ** 2 <= radius * radius) values[y * width + x] = label;
    }
  }
}

/**
 * The parts of a map that hang together by the sides of their pixels, as runs along rows: a film has
 * millions of pixels, but few runs.
 * @param {Map2} map
 * @param {(value: number) => number} keyOf pixels of one key hang together; below 0 is in no part
 * @returns {number[][]} of each part: start, end, start, end... places in the values
 */
function parts({ values, width, height }, keyOf) {
  const [starts, ends, keys, above] = [[], [], [], []]; // above: a run before that it hangs together with
  const root = (k) => {
    while (above[k] !== k) k = above[k] = above[above[k]];
    return k;
  };
  const table = Int16Array.from({ length: 256 }, (_, value) => keyOf(value));
  let [last, next] = [0, 0]; // the runs of the row before
  for (let y = 0; y < height; y++) {
    const first = starts.length;
    for (let i = y * width, stop = i + width; i < stop; ) {
      const from = i;
      const value = values[i];
      while (i < stop && values[i] === value) i++;
      const key = table[value];
      const before = starts.length - 1;
      if (key < 0) continue;
      if (before >= first && keys[before] === key && ends[before] === from) ends[before] = i;
      else {
        above.push(starts.length);
        starts.push(from);
        ends.push(i);
        keys.push(key);
      }
    }
    for (let k = first, j = last; k < starts.length; k++) {
      while (j < next && ends[j] + width <= starts[k]) j++;
      for (let m = j; m < next && starts[m] + width < ends[k]; m++) if (keys[m] === keys[k]) above[root(k)] = root(m);
    }
    [last, next] = [first, starts.length];
  }
  const found = new Map();
  starts.forEach((start, k) => {
    const at = root(k);
    if (!found.has(at)) found.set(at, []);
    found.get(at).push(start, ends[k]);
  });
  return [...found.values()];
}

/** Do something with each run of a part. */
function runs(part, act) {
  for (let k = 0; k < part.length; k += 2) act(part[k], part[k + 1]);
}

/** Give a region another class. @param {Map2} map @param {number} start @param {number} label */
export function flood(map, start, label) {
  const own = map.values[start];
  if (own === label) return;
  const holds = (part) => part.some((from, k) => k % 2 === 0 && from <= start && start < part[k + 1]);
  const part = parts(map, (value) => (value === own ? 0 : -1)).find(holds);
  if (part) runs(part, (from, to) => map.values.fill(label, from, to));
}

/** Remove all but the largest part of a class. @param {Map2} map @param {number} label */
export function keepLargest(map, label) {
  const size = (part) => part.reduce((sum, at, k) => sum + (k % 2 ? at : -at), 0);
  const all = parts(map, (value) => (value === label ? 0 : -1)).map((part) => ({ part, size: size(part) }));
  all.sort((a, b) => b.size - a.size);
  for (const { part } of all.slice(1)) runs(part, (from, to) => map.values.fill(0, from, to));
}

/** Fill background that a class encloses. @param {Map2} map @param {number} label */
export function fillHoles(map, label) {
  const { values, width, height } = map;
  const edge = (from, to) => from < width || from >= width * (height - 1) || from % width === 0 || to % width === 0;
  for (const part of parts(map, (value) => (value === label ? -1 : 0))) {
    let isOpen = false;
    runs(part, (from, to) => { isOpen ||= edge(from, to); });
    if (!isOpen) runs(part, (from, to) => { for (let i = from; i < to; i++) if (values[i] === 0) values[i] = label; });
  }
}

/**
 * What a pane can show of a map: its pixels inside, every so many of them.
 * @param {Map2} map
 * @param {{sx: number, sy: number, tx: number, ty: number}} at where its pixels lie in the pane
 * @param {{width: number, height: number}} box
 * @returns {{map: Map2, at: {sx: number, sy: number, tx: number, ty: number}}} and where these lie
 */
export function inView({ values, width, height }, { sx, sy, tx, ty }, box) {
  const cut = (start, scale, side, room) => {
    const by = Math.max(1, Math.floor(1 / scale));
    const from = Math.max(0, Math.floor(-start / scale));
    const to = Math.min(side, Math.ceil((room - start) / scale));
    return { by, from, count: Math.max(0, Math.ceil((to - from) / by)) };
  };
  const [x, y] = [cut(tx, sx, width, box.width), cut(ty, sy, height, box.height)];
  const seen = new Uint8Array(x.count * y.count);
  for (let row = 0, k = 0; row < y.count; row++) {
    let i = (y.from + row * y.by) * width + x.from;
    for (let column = 0; column < x.count; column++, i += x.by) seen[k++] = values[i];
  }
  const there = { sx: sx * x.by, sy: sy * y.by, tx: tx + x.from * sx, ty: ty + y.from * sy };
  return { map: { values: seen, width: x.count, height: y.count }, at: there };
}

/** Sizes that suit an image: on a large film, a small brush would leave no trace. @param {number} width */
export function brushSizes(width) {
  const odd = (size) => 2 * Math.round(size / 2) + 1;
  return { most: Math.max(101, odd(width / 8)), usual: Math.max(9, odd(width / 60)) };
}
