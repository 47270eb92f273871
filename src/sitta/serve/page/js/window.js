/** Window and level: which intensities become black and white. Pure. */

/** @typedef {{low: number, high: number}} Range */

/**
 * Grey or colour pixels from intensities.
 * @param {Float32Array} values channels interleaved
 * @param {number} channels 1 or 3
 * @param {Range} range
 * @returns {Uint8ClampedArray} RGBA
 */
export function render(values, channels, { low, high }) {
  const count = values.length / channels;
  const pixels = new Uint8ClampedArray(count * 4);
  const gain = 255 / Math.max(high - low, 1e-30);
  for (let i = 0; i < count; i++) {
    for (let c = 0; c < 3; c++) {
      pixels[i * 4 + c] = (values[i * channels + (channels === 3 ? c : 0)] - low) * gain;
    }
    pixels[i * 4 + 3] = 255;
  }
  return pixels;
}

/**
 * Level (middle) and width of a range, and back.
 * @param {Range} range
 */
export const levelOf = ({ low, high }) => ({ level: (low + high) / 2, width: high - low });

/** @returns {Range} */
export const rangeOf = (level, width) => ({ low: level - width / 2, high: level + width / 2 });

/**
 * A range moved by a drag: up is brighter, to the right is more contrast-free (wider).
 * @param {Range} range
 * @param {number} right share of the picture's width
 * @param {number} down share of the picture's height
 * @param {Range} whole all intensities of the image
 * @returns {Range}
 */
export function dragged(range, right, down, whole) {
  const span = Math.max(whole.high - whole.low, 1e-30);
  const { level, width } = levelOf(range);
  const wider = Math.min(2 * span, Math.max(span / 500, width * Math.exp(2 * right)));
  const moved = Math.min(whole.high, Math.max(whole.low, level + down * span));
  return rangeOf(moved, wider);
}

/** Usual windows of computed tomography, in Hounsfield units: level and width. */
const TOMOGRAPHY = { "Soft tissue": [40, 400], Lung: [-600, 1500], Bone: [400, 1800], Brain: [40, 80] };

/**
 * The ranges to choose from.
 * @param {{kind: string, intensity: {low: number, high: number, window: number[]}}} result
 * @returns {Record<string, Range>}
 */
export function presets({ kind, intensity }) {
  const { low, high, window } = intensity;
  const found = { Auto: { low: window[0], high: window[1] }, Full: { low, high } };
  if (found.Auto.high <= found.Auto.low) found.Auto = { low, high };
  if (kind.toLowerCase() === "dicom" && low < -500) {
    for (const [name, [level, width]] of Object.entries(TOMOGRAPHY)) found[name] = rangeOf(level, width);
  }
  return found;
}
