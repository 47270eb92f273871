/** Mouse, touch and wheel on the panes: pan, zoom, slices, window and level. */

import { panned, place, zoomed } from "./transform.js";
import { dragged, presets } from "./window.js";

/** @typedef {{x: number, y: number}} Point */
/** @typedef {Point & {pane: any}} Held where a finger or button is down */

/** Turns what hands do on a pane into changes of the view. */
export class Pointer {
  /** @type {Map<number, Held>} */
  #down = new Map();

  #wheel = 0;

  /**
   * @param {import("./state.js").Store} store
   * @param {import("./viewer.js").Viewer} viewer
   * @param {{slice: (by: number) => void, hover: (at: {x: number, y: number} | null, pane?: number) => void,
   *   hand: (pane: any, event: any, first: boolean) => boolean}} act
   */
  constructor(store, viewer, act) {
    this.store = store;
    this.viewer = viewer;
    this.act = act;
    for (const pane of viewer.panes) this.#listen(pane);
    store.on(["view", "review"], () => this.#touch());
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

  /** A finger scrolls the page past an image that fits, moves one that is zoomed, and draws on a mask. */
  #touch() {
    const fits = this.store.look.view.zoom <= 1 && !this.viewer.draft;
    for (const { canvas } of this.viewer.panes) canvas.style.touchAction = fits ? "pan-y" : "none";
  }

  #press(pane, event) {
    if (!this.viewer.picture(this.#number(pane))) return;
    if (this.act.hand(pane, event, true)) event.preventDefault();
    this.#down.set(event.pointerId, { pane, x: event.offsetX, y: event.offsetY });
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
    const rest = this.#rest(pane, event.pointerId);
    if (!rest && this.act.hand(pane, event, false)) {
      this.#down.set(event.pointerId, { pane, ...at });
      return;
    }
    if (rest) this.#pinch(pane, rest, before, at, picture);
    else if (event.buttons === 2 || event.shiftKey) this.#window(pane, before, at);
    else this.#drag(pane, event, before, at, picture);
    this.#down.set(event.pointerId, { pane, ...at });
  }

  /** The other one of two fingers on a pane, if there are two. */
  #rest(pane, id) {
    const others = [...this.#down].filter(([other, held]) => other !== id && held.pane === pane);
    return others.length === 1 ? others[0][1] : null;
  }

  #drag(pane, event, before, at, picture) {
    const { view } = this.store.look;
    if (event.pointerType === "touch" && view.zoom <= 1) return; // that finger scrolls the page
    this.store.show({ view: panned(view, at.x - before.x, at.y - before.y, picture, pane.box) });
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

  /** What lay below the middle of both fingers goes with it, and grows as they part. */
  #pinch(pane, rest, before, at, picture) {
    const far = (a, b) => Math.hypot(a.x - b.x, a.y - b.y) || 1;
    const middle = { x: (at.x + rest.x) / 2, y: (at.y + rest.y) / 2 };
    const [right, down] = [(at.x - before.x) / 2, (at.y - before.y) / 2];
    const moved = panned(this.store.look.view, right, down, picture, pane.box);
    const factor = far(at, rest) / far(before, rest);
    this.store.show({ view: zoomed(moved, factor, middle, picture, pane.box) });
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
