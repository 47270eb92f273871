/** One pane: an image with its maps and outlines, drawn on a canvas at the screen's resolution. */

import { heat, strokes } from "./colours.js";
import { difference, outlines } from "./outline.js";
import { inView } from "./brush.js";
import { nearest } from "./state.js";
import { brush, paint, ruler, sheet } from "./over.js";
import { place } from "./transform.js";
import { render } from "./window.js";

/** @typedef {import("./slices.js").Raw} Raw */

/**
 * @typedef {object} Scene all that a pane shows
 * @property {Raw} image
 * @property {Raw | null} mask
 * @property {Raw | null} source
 * @property {Raw | null} members
 * @property {number[]} lambdas of the members
 * @property {Raw | null} heat
 * @property {Raw | null} other mask that this one is compared with
 * @property {number} ratio height by width of a pixel
 * @property {string[] | null} [marks] what lies left, right, above, below
 * @property {number | null} [millimetres] between columns of the file
 * @property {number} [columns] of the file: those that are shown may be fewer
 * @property {number} [step] every how many pixels of the file are shown
 * @property {any} [draft] a mask that is being drawn, at the size of the file, with its brush
 * @property {number} classes
 * @property {(string | null)[]} [colours] of the classes
 * @property {{low: number, high: number}} window
 */

const SMOOTH = 12; // pixels of the screen for one of the image, from where on pixels show as squares

/** @type {WeakMap<any, Map<number, number[][]>>} */
const traced = new WeakMap();

/** Outlines of a map, computed once. */
function loopsOf(values, width, height) {
  let found = traced.get(values);
  if (!found) traced.set(values, (found = outlines(values, width, height)));
  return found;
}

/** @type {WeakMap<any, Uint8Array[]>} */
const split = new WeakMap();

/**
 * The map of one member.
 * @param {Raw} members
 * @param {number} number
 * @returns {Raw}
 */
export function memberOf(members, number) {
  const { width, height, depth } = members;
  let all = split.get(members.values);
  if (!all) {
    const cut = (_, k) => members.values.subarray(k * width * height, (k + 1) * width * height);
    split.set(members.values, (all = Array.from({ length: depth }, cut)));
  }
  return { values: all[Math.min(number, all.length - 1)], width, height, depth: 1 };
}

/** Remembers the last thing that was made, by what it was made of. */
function last(make) {
  let before = [];
  let made = null;
  return (...parts) => {
    if (made === null || parts.some((part, i) => part !== before[i])) made = make(...parts);
    before = parts;
    return made;
  };
}

/** Draws scenes on a canvas. */
export class Pane {
  #ground = last((values, channels, low, high, width, height) =>
    sheet(render(values, channels, { low, high }), width, height));

  #heat = last((values, kind, most, width, height) =>
    sheet(heat(values, kind, most), width, height));

  #changes = last((one, other) => difference(one, other));

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.box = { width: 1, height: 1 };
  }

  /** Fit the canvas to its place on the screen. */
  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const density = Math.min(3, devicePixelRatio || 1);
    this.box = { width, height };
    const [wide, high] = [Math.max(1, Math.round(width * density)), Math.max(1, Math.round(height * density))];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      Object.assign(this.canvas, { width: wide, height: high });
    }
    this.density = density;
  }

  /**
   * @param {Scene | null} scene
   * @param {import("./state.js").Store["look"]} look
   */
  draw(scene, look) {
    this.resize();
    const pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    pen.setTransform(this.density, 0, 0, this.density, 0, 0);
    pen.clearRect(0, 0, this.box.width, this.box.height);
    if (!scene) return;
    const { width, height } = scene.image;
    const at = place(look.view, { width, height, ratio: scene.ratio }, this.box);
    pen.imageSmoothingEnabled = at.sx < SMOOTH;
    pen.imageSmoothingQuality = "high";
    this.#pictures(pen, scene, look, at);
    if (look.bare) return;
    if (scene.draft) this.#draft(pen, scene, look, at);
    else this.#outlines(pen, scene, look, at);
    ruler(pen, scene, at, this.box);
  }

  /** The mask being drawn, at the resolution of the pane: every stroke redraws it. */
  #draft(pen, scene, look, at) {
    const { draft, step = 1 } = scene;
    const own = { ...at, sx: at.sx / step, sy: at.sy / step }; // of the file's own pixels
    const seen = inView(draft.map, own, this.box);
    paint(pen, { ...draft, map: seen.map }, seen.at);
    this.#outlines(pen, { ...scene, mask: null, other: null }, look, at);
    this.#outline(pen, "mask", seen.map, scene, seen.at);
    brush(pen, draft.brush, own);
  }

  #pictures(pen, scene, look, at) {
    const { values, width, height } = scene.image;
    const { low, high } = scene.window;
    const channels = values.length / (width * height);
    const area = [at.tx, at.ty, width * at.sx, height * at.sy];
    pen.drawImage(this.#ground(values, channels, low, high, width, height), ...area);
    if (!scene.heat) return;
    pen.globalAlpha = look.opacity;
    const { values: map } = scene.heat;
    pen.drawImage(this.#heat(map, look.heat, look.most, width, height), ...area);
    pen.globalAlpha = 1;
  }

  #outlines(pen, scene, look, at) {
    pen.save();
    pen.globalAlpha = Math.min(1, look.opacity * 1.2);
    if (scene.other && look.changes) {
      const { width, height } = scene.mask;
      const changed = this.#changes(scene.mask.values, scene.other.values);
      this.#hatch(pen, loopsOf(changed, width, height).get(1) ?? [], at);
    }
    if (look.mask && scene.mask) this.#outline(pen, "mask", scene.mask, scene, at);
    if (scene.source) this.#outline(pen, "source", scene.source, scene, at);
    if (scene.members) {
      const member = memberOf(scene.members, nearest(scene.lambdas, look));
      this.#outline(pen, "member", member, scene, at);
    }
    pen.restore();
  }

  #path(loops, at) {
    const path = new Path2D();
    for (const loop of loops) {
      for (let i = 0; i < loop.length; i += 2) {
        const [x, y] = [loop[i] * at.sx + at.tx, loop[i + 1] * at.sy + at.ty];
        if (i === 0) path.moveTo(x, y);
        else path.lineTo(x, y);
      }
      path.closePath();
    }
    return path;
  }

  #outline(pen, kind, map, { classes, colours }, at) {
    pen.lineJoin = "round";
    for (const [label, loops] of loopsOf(map.values, map.width, map.height)) {
      const path = this.#path(loops, at);
      for (const { colour, width, dash, cap } of strokes(kind, label, classes, colours)) {
        pen.setLineDash(dash);
        Object.assign(pen, { strokeStyle: colour, lineWidth: width, lineCap: cap });
        pen.stroke(path);
      }
    }
  }

  /** Pixels that changed: stripes, legible without colour and with the image below. */
  #hatch(pen, loops, at) {
    if (loops.length === 0) return;
    const path = this.#path(loops, at);
    pen.save();
    pen.fillStyle = "rgb(255 255 255 / 0.22)";
    pen.fill(path);
    pen.clip(path);
    pen.beginPath();
    const { width, height } = this.box;
    for (let x = -height; x < width; x += 7) {
      pen.moveTo(x, height);
      pen.lineTo(x + height, 0);
    }
    pen.strokeStyle = "rgb(255 255 255 / 0.9)";
    pen.lineWidth = 1.25;
    pen.stroke();
    pen.restore();
  }
}

/**
 * A small picture of a scene, for the list.
 * @param {HTMLCanvasElement} canvas
 * @param {Scene} scene
 */
export function thumbnail(canvas, scene) {
  const pane = new Pane(canvas);
  const look = { view: { zoom: 1, x: 0.5, y: 0.5 }, mask: true, opacity: 1 };
  pane.draw({ ...scene, source: null, members: null, heat: null, other: null }, /** @type {any} */ (look));
}
