/** Mouse, touch and wheel on the panes: pan, zoom, slices, window and level. */

import { panned, place, zoomed } from "./transform.js";
import { dragged, presets } from "./window.js";

/** @typedef {{x: number, y: number}} Point */

/** Turns what hands do on a pane into changes of the view. */
export class Pointer {
  /** @type {Map<number, Point>} */
  #down = new Map();

  #wheel = 0;

  /**
   * @param {import("./state.js").Store} store
   * @param {import("./viewer.js").Viewer} viewer
   * @param {{slice: (by: number) => void, hover: (at: {x: number, y: number} | null, pane?: number) => void}} act
   */
  constructor(store, viewer, act) {
    this.store = store;
    this.viewer = viewer;
    this.act = act;
    for (const pane of viewer.panes) this.#listen(pane);
    store.on(["view"], () => this.#touch());
  }

  #listen(pane) {
    const { canvas } = pane;
    canvas.addEventListener("pointerdown", (event) => this.#press(pane, event));
    canvas.addEventListener("pointermove", (event) => this.#move(pane, event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => this.#down.delete(event.pointerId));
    }
    canvas.addEventListener("pointerleave", () => this.act.hover(null));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => this.#roll(pane, event), { passive: false });
    canvas.addEventListener("dblclick", () => this.store.show({ view: { zoom: 1, x: 0.5, y: 0.5 } }));
  }

  /** A finger scrolls the page past an image that fits, and moves one that is zoomed. */
  #touch() {
    const fits = this.store.look.view.zoom === 1;
    for (const { canvas } of this.viewer.panes) canvas.style.touchAction = fits ? "pan-y" : "none";
  }

  #press(pane, event) {
    if (!this.viewer.picture(this.#number(pane))) return;
    this.#down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    pane.canvas.setPointerCapture(event.pointerId);
  }

  #number(pane) {
    return this.viewer.panes.indexOf(pane);
  }

  #move(pane, event) {
    const picture = this.viewer.picture(this.#number(pane));
    const at = { x: event.offsetX, y: event.offsetY };
    const before = this.#down.get(event.pointerId);
    if (!picture) return;
    if (!before) {
      const { sx, sy, tx, ty } = place(this.store.look.view, picture, pane.box);
      this.act.hover({ x: Math.floor((at.x - tx) / sx), y: Math.floor((at.y - ty) / sy) }, this.#number(pane));
      return;
    }
    if (this.#down.size === 2) this.#pinch(pane, event.pointerId, at, picture);
    else if (event.buttons === 2 || event.shiftKey) this.#window(pane, before, at);
    else {
      const view = panned(this.store.look.view, at.x - before.x, at.y - before.y, picture, pane.box);
      this.store.show({ view });
    }
    this.#down.set(event.pointerId, at);
  }

  #window(pane, before, at) {
    const entry = this.store.selected;
    if (!entry?.result) return;
    const now = entry.window ?? presets(entry.result).Auto;
    const { width, height } = pane.box;
    const [right, down] = [(at.x - before.x) / width, (at.y - before.y) / height];
    entry.window = dragged(now, right, down, entry.result.intensity);
    this.store.changed("view");
  }

  #pinch(pane, id, at, picture) {
    const [rest] = [...this.#down].filter(([other]) => other !== id).map(([, point]) => point);
    const before = /** @type {Point} */ (this.#down.get(id));
    const far = (a, b) => Math.hypot(a.x - b.x, a.y - b.y) || 1;
    const middle = { x: (at.x + rest.x) / 2, y: (at.y + rest.y) / 2 };
    const factor = far(at, rest) / far(before, rest);
    this.store.show({ view: zoomed(this.store.look.view, factor, middle, picture, pane.box) });
  }

  /** Slices of a volume; zoom of an image, or with Ctrl or Shift. */
  #roll(pane, event) {
    const picture = this.viewer.picture(this.#number(pane));
    const entry = this.store.selected;
    if (!picture || !entry?.result) return;
    event.preventDefault();
    const pixels = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 33 : 1);
    if (entry.result.slices > 1 && !event.ctrlKey && !event.shiftKey) {
      this.#wheel += pixels;
      const by = Math.trunc(this.#wheel / 50);
      this.#wheel -= by * 50;
      if (by) this.act.slice(Math.sign(by));
      return;
    }
    const point = { x: event.offsetX, y: event.offsetY };
    const view = zoomed(this.store.look.view, Math.exp(-pixels / 400), point, picture, pane.box);
    this.store.show({ view });
  }
}
