/** What was done to a mask, step by step, so that it can be taken back; each in few bytes. Pure. */

const MOST = 200;

/** A map in few bytes: where each run of one class ends, and the class. @param {Uint8Array} values */
export function pack(values) {
  const [ends, labels] = [[], []];
  for (let i = 0; i < values.length; ) {
    const value = values[i];
    while (i < values.length && values[i] === value) i++;
    ends.push(i);
    labels.push(value);
  }
  return { ends: Uint32Array.from(ends), labels: Uint8Array.from(labels) };
}

/** The same as it was. @param {{ends: Uint32Array, labels: Uint8Array}} packed */
export function unpack({ ends, labels }) {
  const values = new Uint8Array(ends.at(-1) ?? 0);
  ends.forEach((end, k) => values.fill(labels[k], k ? ends[k - 1] : 0, end));
  return values;
}

/** The steps of a map whose values are replaced. */
export class Steps {
  /** Those that can be taken back, and those that were. */
  undo = [];
  redo = [];

  /** Before something is done. @param {{values: Uint8Array}} map */
  add(map) {
    this.#put(this.undo, map);
    this.redo = [];
  }

  #put(steps, map) {
    steps.push(pack(map.values));
    if (steps.length > MOST) steps.shift();
  }

  /** Take the last one back, or do it once more. @param {{values: Uint8Array}} map @param {"undo" | "redo"} way */
  go(map, way) {
    const packed = this[way].pop();
    if (!packed) return;
    this.#put(way === "undo" ? this.redo : this.undo, map);
    map.values = unpack(packed);
  }
}
