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
 * Pixels that hang together by their sides with one, and are of its class.
 * @param {Map2} map
 * @param {number} start
 * @param {Uint8Array} seen is set to 1 for each of them
 * @returns {number[]}
 */
function region({ values, width, height }, start, seen) {
  const found = [start];
  const label = values[start];
  seen[start] = 1;
  for (let k = 0; k < found.length; k++) {
    const i = found[k];
    const x = i % width;
    const add = (j) => {
      if (seen[j] || values[j] !== label) return;
      seen[j] = 1;
      found.push(j);
    };
    if (x > 0) add(i - 1);
    if (x < width - 1) add(i + 1);
    if (i >= width) add(i - width);
    if (i < width * (height - 1)) add(i + width);
  }
  return found;
}

/** Give a region another class. @param {Map2} map @param {number} start @param {number} label */
export function flood(map, start, label) {
  if (map.values[start] === label) return;
  for (const i of region(map, start, new Uint8Array(map.values.length))) map.values[i] = label;
}

/** Remove all but the largest part of a class. @param {Map2} map @param {number} label */
export function keepLargest(map, label) {
  const seen = new Uint8Array(map.values.length);
  const parts = [];
  map.values.forEach((value, i) => value === label && !seen[i] && parts.push(region(map, i, seen)));
  parts.sort((a, b) => b.length - a.length);
  for (const part of parts.slice(1)) for (const i of part) map.values[i] = 0;
}

/** Fill background that a class encloses. @param {Map2} map @param {number} label */
export function fillHoles(map, label) {
  const { width, height } = map;
  const own = { width, height, values: Uint8Array.from(map.values, (value) => (value === label ? 1 : 0)) };
  const seen = new Uint8Array(own.values.length);
  own.values.forEach((value, i) => {
    if (value || seen[i]) return;
    const part = region(own, i, seen);
    const out = part.some((k) => k < width || k >= width * (height - 1) || k % width === 0 || k % width === width - 1);
    if (!out) for (const k of part) if (map.values[k] === 0) map.values[k] = label;
  });
}
