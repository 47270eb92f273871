/** Entropy and weight over lambda, drawn right above the slider that steps through them. */

import { draw, fill, make } from "./dom.js";
import { fixed, memberWords, percent } from "./words.js";

const TOP = 8;
const LINE = 40; // height of the curve of the entropies
const GAP = 12;
const BARS = 30; // height of the weights
export const HEIGHT = TOP + LINE + GAP + BARS + 2;
const STRIP = 30; // height of the strip of a volume
const EDGE = 10; // half a thumb of the slider: its ends lie this far inside

/** Where member k of n stands, as the thumb of a range does. */
const across = (k, n, width) => (n === 1 ? width / 2 : EDGE + (k * (width - 2 * EDGE)) / (n - 1));

/**
 * @typedef {object} Curve
 * @property {number[]} lambdas
 * @property {string[]} [member_names]
 * @property {number[]} entropies
 * @property {number[]} weights
 * @property {number} member the chosen one
 * @property {boolean} on whether it is shown on the image
 */

/** One sentence for those who do not see the picture. @param {Curve} curve */
export function summary(curve) {
  const { lambdas, entropies, weights } = curve;
  const at = (k) => memberWords(curve, k, "lambda ");
  const best = weights.indexOf(Math.max(...weights));
  const least = entropies.indexOf(Math.min(...entropies));
  return (
    `Entropy and weight of ${lambdas.length} members from ${at(0)} to ` +
    `${at(lambdas.length - 1).replace("lambda ", "")}. The largest weight, ${fixed(weights[best])}, is at ` +
    `${at(best)}; the lowest entropy, ${fixed(entropies[least])} bit, at ` +
    `${at(least)}.`
  );
}

/**
 * Draw the curve.
 * @param {SVGElement} svg
 * @param {Curve} curve
 * @param {number} width in pixels
 * @param {(member: number) => void} choose
 */
export function plot(svg, curve, width, choose) {
  const { lambdas, entropies, weights, member, on } = curve;
  const n = lambdas.length;
  const [highest, heaviest] = [Math.max(...entropies, 1e-9), Math.max(...weights, 1e-9)];
  const x = (k) => across(k, n, width);
  const y = (k) => TOP + LINE * (1 - entropies[k] / highest);
  const floor = TOP + LINE + GAP + BARS;
  const wide = Math.max(2, Math.min(2 * EDGE, ((width - 2 * EDGE) / Math.max(1, n - 1)) * 0.55));
  const chosen = (k) => (on && k === member ? ".on" : "");
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute("aria-label", summary(curve));
  const points = lambdas.map((_, k) => `${x(k)},${y(k)}`).join(" ");
  fill(
    svg,
    draw("line.axis", { x1: 0, x2: width, y1: TOP + LINE + 0.5, y2: TOP + LINE + 0.5 }),
    draw("line.axis", { x1: 0, x2: width, y1: floor + 0.5, y2: floor + 0.5 }),
    on && draw("line.now", { x1: x(member), x2: x(member), y1: 0, y2: HEIGHT }),
    ...weights.map((weight, k) => {
      const high = Math.max(1, (BARS * weight) / heaviest);
      return draw(`rect.bar${chosen(k)}`, { x: x(k) - wide / 2, y: floor - high, width: wide, height: high, rx: 1.5 });
    }),
    n > 1 && draw("polyline.curve", { points }),
    ...lambdas.map((_, k) => draw(`circle.dot${chosen(k)}`, { cx: x(k), cy: y(k), r: n > 30 ? 2 : 3.5 })),
    ...lambdas.map((_, k) => {
      const half = (width - 2 * EDGE) / Math.max(1, n - 1) / 2;
      const left = Math.max(0, x(k) - half);
      const box = { x: left, y: 0, width: Math.min(width, x(k) + half) - left, height: HEIGHT };
      return draw("rect.hit", { ...box, click: () => choose(k) });
    }),
  );
}

/**
 * The same as a table.
 * @param {Curve & {areas: Array<number | null>, source: number | null, structure?: string}} curve
 * @returns {HTMLTableElement}
 */
export function table({ lambdas, member_names, entropies, weights, areas, source, structure }) {
  const head = ["λ", "entropy, bit", "weight", structure || "foreground"];
  return make(
    "table",
    {},
    make("caption.hidden", {}, "Members between the training statistics (λ 1) and this image (λ 0)"),
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    make(
      "tbody",
      {},
      ...lambdas.map((_, k) =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }, memberWords({ lambdas, member_names }, k, ""), k === source && make("small", {}, " source")),
          make("td", {}, fixed(entropies[k])),
          make("td", {}, fixed(weights[k])),
          make("td", {}, percent(areas[k] ?? null)),
        ),
      ),
    ),
  );
}

/** How good a slice is expected to be. @param {number} dice */
const grade = (dice) => (dice >= 0.9 ? "high" : dice >= 0.75 ? "middle" : "low");

/**
 * Expected Dice of each slice of a volume, as a strip above its slider; doubt if it is not known.
 * @param {SVGElement} svg
 * @param {{rows: import("./state.js").Row[], slices: number}} result some rows may not be there yet
 * @param {number} slice
 * @param {number} width
 * @param {(slice: number) => void} choose
 */
export function strip(svg, { rows, slices: n }, slice, width, choose) {
  const known = rows.length > 0 && rows.every((row) => typeof row.expected_dice === "number");
  const most = Math.max(...rows.map((row) => row.doubt ?? 0), 0.25);
  const wide = Math.max(1, Math.min(2 * EDGE, ((width - 2 * EDGE) / Math.max(1, n - 1)) * 0.7));
  const looks = rows.filter((row) => row.look).length;
  const of = rows.length < n ? `${rows.length} of ${n} slices so far` : `${n} slices`;
  const name = known ? "Expected Dice" : "Doubt";
  svg.setAttribute("viewBox", `0 0 ${width} ${STRIP}`);
  svg.setAttribute("aria-label", `${name} of ${of}; ${looks} to look at.`);
  const bySlice = new Map(rows.map((row) => [row.slice, row]));
  const bar = (k) => {
    const row = bySlice.get(k);
    const share = !row ? 0 : known ? row.expected_dice : (row.doubt ?? 0) / most;
    const high = Math.max(1.5, (STRIP - 4) * share);
    const kinds = [row ? "" : ".open", known && row ? `.${grade(row.expected_dice)}` : "", row?.look ? ".look" : "", k === slice ? ".on" : ""];
    const words = row ? `${name.toLowerCase()} ${fixed(known ? row.expected_dice : row.doubt, 2)}` : "not done yet";
    const box = { x: across(k, n, width) - wide / 2, y: STRIP - 2 - high, width: wide, height: high };
    return draw(`rect.slice${kinds.join("")}`, { ...box, click: () => choose(k) },
      draw("title", {}, `Slice ${k + 1}: ${words}${row?.look ? ", look at it" : ""}`));
  };
  const here = { x1: across(slice, n, width) - wide / 2, x2: across(slice, n, width) + wide / 2, y1: STRIP - 0.5, y2: STRIP - 0.5 };
  fill(svg, ...Array.from({ length: n }, (_, k) => bar(k)), draw("line.here", here));
}
