/** Three linked planes of a volume: beside the slice, a cut along its rows and one along its columns. */

import { byId } from "./dom.js";
import { choiceOf } from "./review.js";
import { shownOf } from "./state.js";
import { FITTED, place } from "./transform.js";
import { Pane } from "./view.js";
import { maskKind } from "./layers.js";
import { presets } from "./window.js";

const CUTS = [
  { id: "rows", plane: 1, axis: "y", other: "x" },
  { id: "columns", plane: 2, axis: "x", other: "y" },
];
const STILL = 4; // pixels: less is a click, more a drag

/** @type {WeakMap<any, any>} */
const turned = new WeakMap();

/** The same with its last line at the top: heads are up. */
function upturned(raw) {
  let found = turned.get(raw);
  if (found) return found;
  const { values, height } = raw;
  const line = values.length / height;
  const flipped = new values.constructor(values.length);
  for (let y = 0; y < height; y++) flipped.set(values.subarray(y * line, (y + 1) * line), (height - 1 - y) * line);
  turned.set(raw, (found = { ...raw, values: flipped }));
  return found;
}

/** The two other planes, and where all three meet. */
export class Planes {
  #turn = 0;

  /**
   * @param {import("./state.js").Store} store
   * @param {import("./slices.js").Slices} slices
   * @param {import("./viewer.js").Viewer} viewer
   * @param {(slice: number) => void} go shows a slice
   */
  constructor(store, slices, viewer, go) {
    Object.assign(this, { store, slices, viewer, go });
    this.panes = CUTS.map(({ id }) => new Pane(byId(`pane-${id}`)));
    this.scenes = CUTS.map(() => null);
    CUTS.forEach((cut, i) => this.#listen(cut, this.panes[i], i));
    this.#clicks(byId("pane-now"));
    byId("show-planes").addEventListener("click", () => this.toggle());
    const watcher = new ResizeObserver(() => this.#paint());
    for (const { canvas } of this.panes) watcher.observe(canvas);
    store.on(["selection", "view"], () => this.refresh());
  }

  /** Show the other planes, or the slice alone. */
  toggle() {
    const { look, selected } = this.store;
    if ((selected?.result?.slices ?? 1) > 1) this.store.show({ planes: !look.planes, compare: false });
  }

  get #isOn() {
    const { look, selected } = this.store;
    return look.planes && !look.compare && (selected?.result?.slices ?? 1) > 1;
  }

  /** Load what is missing, then draw. */
  async refresh() {
    const { selected: entry, look } = this.store;
    const on = this.#isOn;
    byId("show-planes").hidden = (shownOf(entry)?.slices ?? 1) < 2;
    byId("show-planes").disabled = !entry?.result;
    byId("show-planes").setAttribute("aria-pressed", String(on));
    byId("stage").classList.toggle("planes", on);
    for (const { id } of CUTS) byId(`figure-${id}`).hidden = !on;
    if (!on || !entry?.result) return;
    const turn = ++this.#turn;
    const { result } = entry;
    if (!entry.cross) {
      entry.cross = this.#middle(result);
      this.store.changed("view");
    }
    const mask = maskKind(choiceOf(entry), entry.corrections ?? 0);
    const kinds = ["image", mask, ...(look.source && result.source_member !== null ? ["source"] : [])];
    const loads = CUTS.map(({ plane, axis }) =>
      Promise.all(kinds.map((kind) => this.slices.get(result, `${kind}&plane=${plane}`, entry.cross[axis]))));
    const raws = await Promise.all(loads).catch(() => null); // the slice says why
    if (!raws || turn !== this.#turn) return;
    this.scenes = raws.map((raw, i) => this.#scene(entry, raw, CUTS[i]));
    this.#paint();
  }

  /** The middle of the mask in this slice, else of the image. */
  #middle(result) {
    const [high, wide] = result.shape.slice(-2);
    const raw = this.viewer.scenes[0]?.mask;
    let [x, y, n] = [0, 0, 0];
    raw?.values.forEach((value, i) => {
      if (!value) return;
      x += i % raw.width;
      y += Math.floor(i / raw.width);
      n++;
    });
    if (!n || !raw) return { x: wide >> 1, y: high >> 1 };
    const step = wide / raw.width;
    return { x: Math.min(wide - 1, Math.round((x / n) * step)), y: Math.min(high - 1, Math.round((y / n) * step)) };
  }

  #isUp = (result) => result.ends?.[1] === "S"; // the last slice lies towards the head

  #scene(entry, [image, mask, source], { other }) {
    const { result, cross, slice } = entry;
    const [deep, high, wide] = result.spacing ?? [1, 1, 1];
    const across = other === "x" ? wide : high;
    const up = this.#isUp(result);
    const as = (raw) => (raw && up ? upturned(raw) : (raw ?? null));
    const { marks, ends } = result;
    const sides = marks && (other === "x" ? marks.slice(0, 2) : marks.slice(2));
    return {
      image: as(image), mask: as(mask), source: as(source), members: null, lambdas: [], heat: null, other: null,
      ratio: deep > 0 && across > 0 ? deep / across : 1,
      classes: result.classes.length,
      colours: result.colours ?? [],
      window: entry.window ?? presets(result).Auto,
      marks: sides && ends && [...sides, ...(up ? [ends[1], ends[0]] : ends)],
      millimetres: ["nifti", "dicom"].includes(result.kind) ? across : null,
      columns: image.width,
      cross: { x: cross[other], y: up ? result.slices - 1 - slice : slice },
    };
  }

  #paint() {
    if (!this.#isOn) return;
    this.panes.forEach((pane, i) => {
      pane.draw(this.scenes[i], { ...this.store.look, view: FITTED, members: false, heat: "", changes: false });
      pane.canvas.dataset.drawn = this.scenes[i] ? `${this.store.selected?.result?.id}/${this.store.selected?.cross?.[CUTS[i].axis]}` : "";
      const { slice, cross } = this.store.selected ?? {};
      pane.canvas.setAttribute("aria-label", `${i ? "Column" : "Row"} ${(cross?.[CUTS[i].axis] ?? 0) + 1}, cut through slice ${(slice ?? 0) + 1}. Arrows move where the planes meet.`);
    });
  }

  /** Go where a hand points to. */
  #move(cut, x, y) {
    const entry = this.store.selected;
    const result = entry?.result;
    if (!entry?.cross || !result) return;
    const [high, wide] = result.shape.slice(-2);
    const most = cut.other === "x" ? wide : high;
    const inside = (value, end) => Math.max(0, Math.min(end - 1, Math.floor(value)));
    entry.cross = { ...entry.cross, [cut.other]: inside(x, most) };
    this.go(inside(this.#isUp(result) ? result.slices - y : y, result.slices));
  }

  #listen(cut, pane, i) {
    const { canvas } = pane;
    const point = (event) => {
      const scene = this.scenes[i];
      if (!scene || !(event.buttons & 1)) return;
      const { sx, sy, tx, ty } = place(FITTED, { ...scene.image, ratio: scene.ratio }, pane.box);
      this.#move(cut, (event.offsetX - tx) / sx, (event.offsetY - ty) / sy);
    };
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("keydown", (event) => {
      const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const way = ways[event.key];
      const scene = this.scenes[i];
      if (!way || !scene) return;
      event.preventDefault();
      event.stopPropagation();
      this.#move(cut, scene.cross.x + way[0] + 0.5, scene.cross.y + way[1] + 0.5);
    });
  }

  /** A click on the slice, not a drag, says where the other planes lie. */
  #clicks(canvas) {
    let from = null;
    canvas.addEventListener("pointerdown", (event) => { from = { x: event.offsetX, y: event.offsetY }; });
    canvas.addEventListener("click", (event) => {
      const far = from && Math.hypot(event.offsetX - from.x, event.offsetY - from.y);
      const entry = this.store.selected;
      const picture = this.viewer.picture();
      if (far === null || far > STILL || !this.#isOn || !entry?.result || !picture || this.viewer.draft) return;
      const { sx, sy, tx, ty } = place(this.store.look.view, picture, this.viewer.panes[0].box);
      const [high, wide] = entry.result.shape.slice(-2);
      const step = wide / picture.width;
      const at = { x: Math.floor(((event.offsetX - tx) / sx) * step), y: Math.floor(((event.offsetY - ty) / sy) * step) };
      if (at.x < 0 || at.y < 0 || at.x >= wide || at.y >= high) return;
      entry.cross = at;
      this.store.changed("view");
    });
  }
}
