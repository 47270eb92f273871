/** Outlines of a map of classes, along the edges of its pixels. Pure. */

const STEP_X = [1, 0, -1, 0]; // right, down, left, up
const STEP_Y = [0, 1, 0, -1];

/**
 * Which edges leave each corner, with the class on the right-hand side.
 * @param {ArrayLike<number>} classes row by row
 * @param {number} width
 * @param {number} height
 * @returns {Map<number, Map<number, number>>} by class: corner -> one bit a direction
 */
function edges(classes, width, height) {
  const found = new Map();
  const corners = width + 1;
  const add = (kind, corner, direction) => {
    let mine = found.get(kind);
    if (!mine) found.set(kind, (mine = new Map()));
    mine.set(corner, (mine.get(corner) ?? 0) | (1 << direction));
  };
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      const kind = classes[i];
      if (kind === 0) continue;
      const corner = y * corners + x;
      if (y === 0 || classes[i - width] !== kind) add(kind, corner, 0);
      if (x === width - 1 || classes[i + 1] !== kind) add(kind, corner + 1, 1);
      if (y === height - 1 || classes[i + width] !== kind) add(kind, corner + corners + 1, 2);
      if (x === 0 || classes[i - 1] !== kind) add(kind, corner + corners, 3);
    }
  }
  return found;
}

/** The way on from a corner: right first, so that pixels that touch at a corner stay apart. */
function turn(leaving, direction) {
  for (const by of [1, 0, 3]) {
    const next = (direction + by) % 4;
    if (leaving & (1 << next)) return next;
  }
  throw new Error("An outline has no way on.");
}

/** Take one closed loop out of the edges; only its bends are kept. */
function trace(mine, start, width) {
  const corners = width + 1;
  let corner = start;
  let direction = Math.log2(mine.get(start) & -mine.get(start));
  const loop = [];
  let before = -1;
  do {
    if (direction !== before) loop.push(corner % corners, Math.floor(corner / corners));
    const rest = mine.get(corner) & ~(1 << direction);
    if (rest) mine.set(corner, rest);
    else mine.delete(corner);
    corner += STEP_X[direction] + STEP_Y[direction] * corners;
    before = direction;
    if (mine.has(corner)) direction = turn(mine.get(corner), direction);
  } while (corner !== start || mine.has(start) && turns(mine.get(start), before));
  return loop;
}

/** Whether a walk that is back at its start goes on there: only if it leaves to the right. */
function turns(leaving, direction) {
  return Boolean(leaving & (1 << (direction + 1) % 4));
}

/**
 * Closed loops around every class but 0; holes run the other way round.
 * @param {ArrayLike<number>} classes one class a pixel, row by row
 * @param {number} width
 * @param {number} height
 * @returns {Map<number, number[][]>} by class: loops of x, y, x, y... in corners of pixels
 */
export function outlines(classes, width, height) {
  const loops = new Map();
  for (const [kind, mine] of edges(classes, width, height)) {
    const all = [];
    while (mine.size) all.push(trace(mine, mine.keys().next().value, width));
    loops.set(kind, all);
  }
  return loops;
}

/**
 * Pixels in which two maps differ, as a map of 0 and 1.
 * @param {ArrayLike<number>} one
 * @param {ArrayLike<number>} other
 * @returns {Uint8Array}
 */
export function difference(one, other) {
  return Uint8Array.from(one, (value, i) => (value === other[i] ? 0 : 1));
}

/**
 * How far two maps overlap: Dice of what is not background; 1 if both are empty.
 * @param {ArrayLike<number>} one
 * @param {ArrayLike<number>} other
 * @returns {number}
 */
export function overlap(one, other) {
  let shared = 0;
  let total = 0;
  for (let i = 0; i < one.length; i++) {
    total += (one[i] > 0 ? 1 : 0) + (other[i] > 0 ? 1 : 0);
    if (one[i] > 0 && one[i] === other[i]) shared++;
  }
  return total ? (2 * shared) / total : 1;
}
