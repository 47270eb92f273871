/** Colours: even ramps for heat maps, and outlines that differ by colour and by dash. Pure. */

/**
 * OKLCH to sRGB; matrices by B. Ottosson, "A perceptual color space for image processing", 2020.
 * @param {number} light 0 to 1
 * @param {number} chroma
 * @param {number} hue in degrees
 * @returns {number[]} red, green, blue from 0 to 1; outside if the screen cannot show it
 */
export function fromOklch(light, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((v) => (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055));
}

/** The same hue and lightness with as much of the chroma as a screen can show. */
function shown(light, chroma, hue) {
  let [low, high] = [0, chroma];
  const fits = (c) => fromOklch(light, c, hue).every((v) => v >= 0 && v <= 1);
  if (fits(chroma)) return fromOklch(light, chroma, hue);
  for (let i = 0; i < 20; i++) {
    const middle = (low + high) / 2;
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return fromOklch(light, low, hue).map((v) => Math.min(1, Math.max(0, v)));
}

/** Where each ramp begins and ends in hue; lightness always rises evenly. */
export const RAMPS = {
  uncertainty: { from: 290, to: 462, chroma: 0.21 }, // violet, magenta, orange, pale yellow
  disagreement: { from: 275, to: 105, chroma: 0.17 }, // indigo, teal, green, pale yellow
};

/** @type {Map<string, Uint8ClampedArray>} */
const computed = new Map();

/**
 * A ramp of 256 colours, from dark to light.
 * @param {keyof typeof RAMPS} kind
 * @returns {Uint8ClampedArray} red, green, blue for each value
 */
export function ramp(kind) {
  const known = computed.get(kind);
  if (known) return known;
  const { from, to, chroma } = RAMPS[kind];
  const table = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const t = i / 255;
    const colour = shown(0.12 + 0.85 * t, chroma * Math.sin(Math.PI * (0.1 + 0.8 * t)), from + (to - from) * t);
    table.set(colour.map((v) => Math.round(v * 255)), i * 3);
  }
  computed.set(kind, table);
  return table;
}

/**
 * A map of 0 to 255 (1 bit) as pixels. What is nearly 0 is clear, so that the image shows.
 * @param {Uint8Array} values
 * @param {keyof typeof RAMPS} kind
 * @param {number} most bits at the upper end of the scale
 * @returns {Uint8ClampedArray} RGBA
 */
export function heat(values, kind, most = 1) {
  const table = ramp(kind);
  const pixels = new Uint8ClampedArray(values.length * 4);
  for (let i = 0; i < values.length; i++) {
    const at = Math.min(255, Math.round(values[i] / most));
    pixels.set(table.subarray(at * 3, at * 3 + 3), i * 4);
    pixels[i * 4 + 3] = Math.min(255, at * 12);
  }
  return pixels;
}

/** Dashes of each kind of outline, in pixels of the screen. */
export const DASHES = { source: [7, 5], mask: [], member: [2, 4] };

const ALONE = { source: "#ffb000", mask: "#35c4ff", member: "#ff8ee0" };
export const CLASSES = ["#35c4ff", "#7ee081", "#ffe45e", "#c9a6ff", "#ff9d7a", "#8fe8e0"];

/** Mix two colours of the form #rrggbb. */
export function mix(one, other, share) {
  const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
  const both = [1, 3, 5].map((at) => Math.round(part(one, at) * (1 - share) + part(other, at) * share));
  return `#${both.map((v) => v.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * Colours of the classes, one for each.
 * @param {{classes: string[], colours?: (string | null)[]}} result
 * @returns {string[]}
 */
export function classColours({ classes, colours = [] }) {
  return classes.map((_, at) => colours[at] ?? CLASSES[at % CLASSES.length]);
}

/**
 * Colour of an outline. One class: a colour for each kind. Several: a colour for each class, and
 * paler or deeper for each kind.
 * @param {"source" | "mask" | "member"} kind
 * @param {number} label from 1 on
 * @param {number} classes how many there are
 * @param {(string | null)[]} [given] a colour of each class, from the model's profile
 * @returns {string}
 */
export function outlineColour(kind, label, classes, given = []) {
  const chosen = given[label - 1];
  if (classes <= 1) return kind === "mask" && chosen ? chosen : ALONE[kind];
  const own = chosen ?? CLASSES[(label - 1) % CLASSES.length];
  if (kind === "mask") return own;
  return kind === "source" ? mix(own, "#ffffff", 0.6) : mix(own, "#ff2fb9", 0.45);
}

/**
 * The lines of an outline, from the lowest: a dark rim keeps it legible on bright tissue.
 * @param {"source" | "mask" | "member"} kind
 * @param {number} label from 1 on
 * @param {number} classes how many there are
 * @param {(string | null)[]} [given] a colour of each class
 * @returns {Array<{colour: string, width: number, dash: number[], cap: "round" | "butt"}>}
 */
export function strokes(kind, label, classes, given = []) {
  const line = { dash: DASHES[kind], cap: /** @type {"round" | "butt"} */ (kind === "member" ? "round" : "butt") };
  const rim = { ...line, colour: "rgb(0 0 0 / 0.65)", width: 4 };
  return [rim, { ...line, colour: outlineColour(kind, label, classes, given), width: kind === "member" ? 2.5 : 2 }];
}
