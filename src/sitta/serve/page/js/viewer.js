/** What the panes show: loads what is needed for the chosen image, slice and layers. */

import { ApiError } from "./api.js";
import { byId, fill } from "./dom.js";
import { choiceOf } from "./review.js";
import { diceOf, holdsAll, maskKind, membersKind, needed, ratioOf, sameShape } from "./layers.js";
import { nearest, shownOf } from "./state.js";
import { stepOf } from "./transform.js";
import { Pane } from "./view.js";
import { presets } from "./window.js";
import { memberWords, methodWords } from "./words.js";

/** @typedef {import("./state.js").Result} Result */
/** @typedef {import("./view.js").Scene} Scene */


/** Both panes, and what they wait for. */
export class Viewer {
  /**
   * @param {import("./state.js").Store} store
   * @param {import("./slices.js").Slices} slices
   * @param {(entry: any, failure: any) => void} gone is called if a slice cannot be had
   */
  constructor(store, slices, gone) {
    this.store = store;
    this.slices = slices;
    this.gone = gone;
    this.panes = [new Pane(byId("pane-now")), new Pane(byId("pane-other"))];
    /** @type {Array<Scene | null>} */
    this.scenes = [null, null];
    this.shown = null;
    /** @type {any} a mask that is being drawn, with its brush */
    this.draft = null;
    this.step = 1;
    this.turn = 0;
    this.isCurrent = false; // whether what is wanted is what is shown
    /** Is called after something was drawn. */
    this.painted = () => undefined;
    store.on(["selection", "view"], () => this.refresh());
    const watcher = new ResizeObserver(() => this.paint());
    for (const pane of this.panes) watcher.observe(pane.canvas);
  }

  /** Results of the panes: now, and the other one beside it. @returns {Array<Result | null>} */
  results() {
    const entry = this.store.selected;
    const now = entry?.result ?? null;
    const other = entry?.other ?? null;
    const beside = this.store.look.compare && !entry?.awaited && other?.slices === now?.slices;
    return [now, beside ? other : null];
  }

  /** Load what is missing, then draw; the picture before stays until then. */
  async refresh() {
    const entry = this.store.selected;
    const results = this.results();
    this.#captions(results);
    this.isCurrent = false;
    this.panes[0].canvas.dataset.current = "";
    if (!entry?.result) return this.#made(entry);
    const turn = ++this.turn;
    const slice = entry.slice;
    this.slices.renew();
    this.step = this.#step(entry);
    const wanted = results.map((result, i) => (result ? needed(result, this.store.look, this.#mask(entry, i), this.step) : []));
    if (this.#compose(entry, results, wanted)) return;
    try {
      await Promise.all(this.#missing(results, wanted, slice));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (turn === this.turn) this.gone(entry, error.failure); // else of a result that is made again by now
      return;
    }
    if (turn !== this.turn) return; // something else is wanted by now, and is on its way
    this.#compose(entry, results, wanted);
    this.#ahead(entry);
  }

  /** What is there of a result that is being made: its image, and outlines of slices that are done. */
  async #made(entry) {
    const turn = ++this.turn;
    const making = entry?.making;
    this.scenes = this.shown?.entry === entry && making ? this.scenes : [null, null];
    this.paint();
    if (!making) return;
    const { slice } = entry;
    this.step = this.#step(entry);
    const isDone = making.rows.some((row) => row.slice === slice);
    const kinds = ["image", ...(isDone ? ["draft", ...(making.source ? ["draft-source"] : [])] : [])];
    const loads = kinds.map((kind) => this.slices.get(making, this.#stepped(kind), slice));
    const raws = await Promise.all(loads).catch(() => null); // when it is done, these are gone
    if (!raws || turn !== this.turn) return;
    const [image, mask, source] = raws;
    const none = { ...image, values: new Uint8Array(image.width * image.height), depth: 1 };
    const raw = { image, mask: mask ?? none, source: this.store.look.source ? source : null };
    this.scenes = [{ ...this.#scene(entry, making, raw), heat: null }, null];
    this.shown = { entry, slice, results: [making, null], step: this.step, isOutlined: isDone };
    this.paint();
  }

  /** The chosen mask of this result; the adapted one of what it is compared with. */
  #mask(entry, pane = 0) {
    return pane ? "mask" : maskKind(choiceOf(entry), entry.corrections ?? 0);
  }

  /** Large films come in steps. */
  #step(entry) {
    this.panes[0].resize();
    const { box, density } = this.panes[0];
    return stepOf(shownOf(entry).shape.slice(-2), box, this.store.look.view.zoom, density ?? 1);
  }

  #stepped(kind) {
    return this.step > 1 ? `${kind}&step=${this.step}` : kind;
  }

  #missing(results, wanted, slice) {
    const [now, other] = results;
    const loads = wanted.flatMap((kinds, i) => kinds.map((kind) => [results[i], kind]));
    const beside = other ?? this.#changed(now);
    if (beside) loads.push([beside, this.#stepped("mask")]);
    return loads.map(([result, kind]) => this.slices.get(result, kind, slice));
  }

  /** What the mask is compared with in a single pane. */
  #changed(now) {
    const other = this.store.selected?.other ?? null;
    return this.store.look.changes && sameShape(now, other) ? other : null;
  }

  /** Draw if everything is here. */
  #compose(entry, results, wanted) {
    const same = sameShape(...results);
    const masks = [results[1] ? same && results[1] : this.#changed(results[0]), same && results[0]];
    const scenes = results.map((result, i) => {
      if (!result) return null;
      const found = wanted[i].map((kind) => [kind, this.slices.here(result, kind, entry.slice)]);
      const raw = Object.fromEntries(found.map(([kind, one]) => [kind.split("&step")[0], one]));
      raw.mask = raw[wanted[i][1].split("&step")[0]];
      if (this.store.look.members && result.lambdas.length > 1) raw.members = raw[membersKind(result, this.store.look, this.step)];
      const other = masks[i] && this.slices.here(masks[i], this.#stepped(i ? this.#mask(entry) : "mask"), entry.slice);
      if (found.some(([, one]) => !one) || (masks[i] && !other)) return undefined;
      return { ...this.#scene(entry, result, raw), other };
    });
    if (scenes.includes(undefined)) return false;
    this.scenes = scenes;
    this.shown = { entry, slice: entry.slice, results, step: this.step };
    this.isCurrent = true;
    this.paint();
    return true;
  }

  /** @returns {Scene} */
  #scene(entry, result, raw) {
    const { heat } = this.store.look;
    return {
      image: raw.image,
      mask: raw.mask,
      source: raw.source ?? null,
      members: raw.members ?? null,
      lambdas: result.lambdas,
      heat: heat ? raw[heat] : null,
      other: null,
      ratio: ratioOf(result),
      classes: result.classes.length,
      colours: result.colours ?? [],
      window: entry.window ?? presets(result).Auto,
      marks: result.marks ?? null,
      millimetres: ["nifti", "dicom"].includes(result.kind) ? (result.spacing?.at(-1) ?? null) : null,
      columns: result.shape.at(-1) ?? 1,
      step: this.step,
      region: result.region ?? null,
      cross: this.store.look.planes ? (entry.cross ?? null) : null,
    };
  }

  #captions(results) {
    const awaited = this.store.look.compare ? this.store.selected?.awaited : "";
    const two = Boolean(results[1] || awaited);
    const lambdas = this.#lambdas(results);
    byId("figure-other").hidden = !two;
    byId("figure-other").classList.toggle("awaited", Boolean(awaited));
    for (const [i, id] of ["caption-now", "caption-other"].entries()) {
      byId(id).hidden = !two;
      if (results[i]) fill(byId(id), methodWords(results[i], this.store.about.methods), lambdas[i], diceOf(results[i], this.store.selected?.slice ?? 0));
    }
    if (awaited) fill(byId("caption-other"), `${this.store.title(awaited)}: running…`);
  }

  /** Which member each pane shows, if it is not the same in both: their grids may differ. */
  #lambdas(results) {
    const { look } = this.store;
    const shown = results.map((one) => one && look.members && one.lambdas.length > 1 && memberWords(one, nearest(one.lambdas, look)));
    const differ = shown.every(Boolean) && shown[0] !== shown[1];
    return shown.map((words) => differ && ` · member at ${words}`);
  }

  /** Fetch what is likely asked for next: members, and the slices beside this one. */
  #ahead(entry) {
    const { result, slice } = entry;
    const quiet = (kind, at) => this.slices.get(result, kind, at).catch(() => undefined);
    if (!holdsAll(result) || this.step > 1) return; // larger ones are fetched when they are asked for
    if (result.lambdas.length > 1) quiet("members", slice);
    for (const at of [slice + 1, slice - 1]) {
      if (at < 0 || at >= result.slices) continue;
      for (const kind of needed(result, this.store.look, this.#mask(entry))) quiet(kind, at);
    }
  }

  /** Draw again what is here. */
  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const [now, other] = this.scenes;
      const drawing = this.draft && now ? { ...now, draft: this.draft } : now;
      this.panes.forEach((pane, i) => pane.draw(i ? other : drawing, this.store.look));
      const drawn = this.scenes[0] ? this.shown : null;
      const canvas = this.panes[0].canvas;
      this.painted();
      const isMade = Boolean(drawn?.entry.result);
      canvas.dataset.drawn = drawn && isMade ? `${drawn.results[0]?.id}/${drawn.slice}` : "";
      canvas.dataset.current = drawn && this.isCurrent ? "yes" : "";
      canvas.dataset.making = drawn && !isMade ? `${drawn.slice}/${drawn.isOutlined ? "outlined" : "image"}` : "";
    });
  }

  /** Size of the image in a pane, for zoom and pan. @param {number} [pane] */
  picture(pane = 0) {
    const scene = this.scenes[pane];
    return scene && { width: scene.image.width, height: scene.image.height, ratio: scene.ratio };
  }
}
