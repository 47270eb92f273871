/** The size of the picture: fitted, closer, or pixel by pixel. */

import { byId } from "./dom.js";
import { FITTED, place, zoomed } from "./transform.js";

/** The buttons on the image. */
export class Zoom {
  /**
   * @param {import("./state.js").Store} store
   * @param {import("./viewer.js").Viewer} viewer
   */
  constructor(store, viewer) {
    this.store = store;
    this.viewer = viewer;
    const buttons = { in: () => this.by(1.5), out: () => this.by(1 / 1.5), fit: () => this.fit(), full: () => this.full() };
    for (const [name, act] of Object.entries(buttons)) byId(`zoom-${name}`).addEventListener("click", act);
    viewer.painted = () => this.#tell();
  }

  /** @param {number} factor */
  by(factor) {
    const picture = this.viewer.picture();
    const { view } = this.store.look;
    if (picture) this.store.show({ view: zoomed(view, factor, null, picture, this.viewer.panes[0].box) });
  }

  fit() {
    this.store.show({ view: { ...FITTED } });
  }

  /** One pixel of the file on one of the screen, also where that is smaller than what fits. */
  full() {
    const [picture, pane] = [this.viewer.picture(), this.viewer.panes[0]];
    if (!picture) return;
    const { view } = this.store.look;
    const factor = 1 / this.#scale(picture, pane);
    this.store.show({ view: zoomed(view, factor, null, picture, pane.box, view.zoom * factor) });
  }

  /** Pixels of the screen for one of the file. */
  #scale(picture, pane) {
    const { sx } = place(this.store.look.view, picture, pane.box);
    return (sx * pane.density) / (this.viewer.shown?.step ?? 1);
  }

  #tell() {
    const picture = this.viewer.picture();
    const { zoom } = this.store.look.view;
    byId("zoom").textContent = `${Math.round(zoom * 100)} %`;
    byId("zoom-true").textContent = picture ? `${Math.round(this.#scale(picture, this.viewer.panes[0]) * 100)} %` : "1:1";
  }
}
