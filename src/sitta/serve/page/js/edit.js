/** Correct a mask by hand: brush, eraser, fill, and what cleans up; kept by the service. */

import { ApiError, send } from "./api.js";
import { brushSizes, fillHoles, flood, keepLargest, stroke } from "./brush.js";
import { classColours } from "./colours.js";
import { byId, choices } from "./dom.js";
import { choiceOf, saidOf } from "./review.js";
import { Steps } from "./steps.js";
import { place } from "./transform.js";
import { maskKind, ratioOf } from "./layers.js";
import { structureOf } from "./words.js";

const TOOLS = ["brush", "eraser", "fill"];

/** The editor of the mask in the slice that is shown. */
export class Edit {
  /** @type {any} the mask that is drawn on, or null */
  draft = null;

  tool = "brush";

  #steps = new Steps();
  #at = null;
  #width = 0;

  /**
   * @param {import("./state.js").Store} store
   * @param {import("./slices.js").Slices} slices
   * @param {import("./viewer.js").Viewer} viewer
   * @param {import("./review.js").Review} review
   * @param {(text: string) => void} say
   */
  constructor(store, slices, viewer, review, say) {
    Object.assign(this, { store, slices, viewer, review, say });
    byId("edit").addEventListener("click", () => (this.draft ? this.save() : this.begin()));
    for (const tool of TOOLS) byId(`tool-${tool}`).addEventListener("click", () => this.choose(tool));
    const steps = { "edit-largest": () => this.#each(keepLargest), "edit-holes": () => this.#each(fillHoles) };
    for (const [id, act] of Object.entries(steps)) byId(id).addEventListener("click", () => this.#step(act));
    byId("edit-undo").addEventListener("click", () => this.#back("undo"));
    byId("edit-redo").addEventListener("click", () => this.#back("redo"));
    byId("edit-copy").addEventListener("click", () => this.copy());
    byId("edit-cancel").addEventListener("click", () => this.#leave("The mask is as it was."));
    byId("edit-fill").addEventListener("input", () => this.#show());
    byId("brush-size").addEventListener("input", () => this.#show());
    store.on(["selection", "view"], () => this.#follow());
    document.addEventListener("keydown", (event) => this.#key(event), true);
    this.#show();
  }

  /** Draw on the mask that is chosen, or go on with what could not be saved. */
  async begin() {
    const entry = this.store.selected;
    if (!entry?.result) return;
    const { result, slice } = entry;
    const mask = maskKind(choiceOf(entry), entry.corrections);
    const kept = entry.unsaved?.result === result && entry.unsaved.slice === slice ? entry.unsaved : null;
    const raw = kept?.map ?? (await this.slices.get(result, mask, slice).catch(() => null));
    if (!raw) this.say(`The mask of ${entry.name} cannot be had from the service.`);
    if (!raw || this.draft || entry !== this.store.selected || slice !== entry.slice || result !== entry.result) return;
    const { values, width, height } = raw;
    this.draft = { entry, result, slice, map: { values: values.slice(), width, height }, changed: Boolean(kept) };
    this.#steps = new Steps();
    this.#at = { x: width / 2, y: height / 2 };
    const { most, usual } = brushSizes(width);
    if (this.#width !== width) Object.assign(byId("brush-size"), { max: String(most), value: String(usual) });
    this.#width = width;
    const names = result.classes.map((text, i) => ({ value: String(i + 1), text }));
    choices(byId("edit-class"), names, "1");
    byId("edit-class-box").hidden = names.length < 2;
    byId("pane-now").focus();
    this.say(`Drawing on the ${structureOf(result).toLowerCase()} of ${entry.name}. Arrows move the brush, Space paints.`);
    this.#show();
    this.store.changed("review"); // a finger draws from now on
  }

  choose(tool) {
    this.tool = tool;
    this.#show();
  }

  /** Keep the mask, and choose it. */
  async save() {
    const { draft } = this;
    if (!draft) return;
    if (!draft.changed) {
      this.#leave("Nothing was drawn.");
      return;
    }
    const { entry, result, slice, map } = draft;
    this.#leave(`The mask of ${entry.name} is being saved.`);
    entry.unsaved = draft;
    try {
      await entry.telling?.catch(() => undefined); // the other slices begin as the service knows them
      await send(`api/results/${result.id}/corrected?slice=${slice}`, "PUT", map.values);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (entry.result !== result) entry.unsaved = null; // it was run again: the mask is of no use
      this.say(`The mask of ${entry.name} is not saved. ${error.failure.message} Open it and press Correct to go on.`);
      return;
    }
    if (entry.unsaved === draft) entry.unsaved = null;
    if (entry.result !== result) return; // it was run again meanwhile
    entry.corrected = true;
    entry.corrections = (entry.corrections ?? 0) + 1;
    this.say(`The corrected mask of ${entry.name} is saved.`);
    this.review.corrected(entry, slice);
  }

  #leave(text) {
    if (this.draft?.entry.unsaved) this.draft.entry.unsaved = null;
    this.draft = null;
    this.viewer.draft = null;
    this.store.changed("view", "review");
    this.say(text);
    this.#show();
  }

  /** Who goes elsewhere keeps what was drawn. */
  #follow() {
    const { draft } = this;
    const { selected } = this.store;
    if (draft && (selected !== draft.entry || selected?.slice !== draft.slice || selected?.result !== draft.result)) this.save();
    this.#show();
  }

  /** Do something that can be undone. @param {() => void} act */
  #step(act) {
    if (!this.draft) return;
    this.#steps.add(this.draft.map);
    this.draft.changed = true;
    this.draft.entry.unsaved = this.draft; // the page warns before it is lost
    act();
    this.#show();
  }

  #each(act) {
    const labels = new Set(this.draft.map.values);
    for (const label of labels) if (label) act(this.draft.map, label);
  }

  #back(way) {
    if (!this.draft) return;
    this.#steps.go(this.draft.map, way);
    this.#show();
  }

  /** The mask of the slice before this one; of the first, that of the second. */
  async copy() {
    const { draft } = this;
    if (!draft || draft.result.slices < 2) return;
    const from = draft.slice > 0 ? draft.slice - 1 : 1;
    const kind = maskKind(saidOf(draft.entry, from), draft.entry.corrections);
    const raw = await this.slices.get(draft.result, kind, from).catch(() => null);
    if (!raw || this.draft !== draft) return;
    this.#step(() => { draft.map.values = raw.values.slice(); });
    this.say(`Slice ${from + 1} is copied.`);
  }

  get #label() {
    return this.tool === "eraser" ? 0 : Number(byId("edit-class").value) || 1;
  }

  /** Paint from one point of the image to another. */
  paint(from, to) {
    const { map, result } = this.draft;
    if (this.tool !== "fill") {
      stroke(map, from, to, Number(byId("brush-size").value) / 2, ratioOf(result), this.#label);
      return;
    }
    const [x, y] = [Math.floor(to.x), Math.floor(to.y)];
    if (x >= 0 && y >= 0 && x < map.width && y < map.height) flood(map, y * map.width + x, this.#label);
  }

  /**
   * A hand on the image; false if it is not for the editor.
   * @param {any} pane
   * @param {PointerEvent} event
   * @param {boolean} first whether the button has just gone down
   */
  hand(pane, event, first) {
    if (!this.draft || event.shiftKey || pane !== this.viewer.panes[0]) return false;
    if (first ? event.button !== 0 : !(event.buttons & 1)) return false;
    const { sx, sy, tx, ty } = place(this.store.look.view, this.viewer.picture(), pane.box);
    const { step = 1 } = this.viewer.scenes[0] ?? {};
    const to = { x: ((event.offsetX - tx) / sx) * step, y: ((event.offsetY - ty) / sy) * step };
    if (first) this.#step(() => this.paint(to, to));
    else if (this.tool !== "fill") {
      this.paint(this.#at, to);
      this.#show();
    }
    this.#at = to;
    return true;
  }

  #key(event) {
    if (!this.draft || byId("help").open || event.target.matches("input[type=text], select, textarea")) return;
    const command = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    const ways = { arrowleft: [-1, 0], arrowright: [1, 0], arrowup: [0, -1], arrowdown: [0, 1] };
    const onPane = event.target === byId("pane-now");
    const size = (by) => {
      const now = Number(byId("brush-size").value);
      byId("brush-size").value = String(now + by * 2 * Math.max(1, Math.round(now / 20)));
      this.#show();
    };
    const all = {
      b: () => this.choose("brush"), w: () => this.choose("eraser"), f: () => this.choose("fill"),
      "[": () => size(-1), "]": () => size(1), z: () => this.#back("undo"), y: () => this.#back("redo"),
      escape: () => this.#leave("The mask is as it was."), enter: () => onPane && this.save(),
      " ": () => onPane && this.#step(() => this.paint(this.#at, this.#at)),
    };
    const way = onPane && !event.ctrlKey ? ways[key] : null;
    if (way) {
      const by = event.altKey ? 1 : Math.max(1, Number(byId("brush-size").value) / 2);
      this.#at = { x: this.#at.x + way[0] * by, y: this.#at.y + way[1] * by };
      this.#show();
    } else if (!(key in all) || (command && !"zy".includes(key)) || ((key === " " || key === "enter") && !onPane)) return;
    else if (command && key === "z" && event.shiftKey) this.#back("redo");
    else all[key]();
    event.preventDefault();
    event.stopPropagation();
  }

  #show() {
    const { draft } = this;
    const result = this.store.selected?.result;
    byId("editor").hidden = !draft;
    document.documentElement.classList.toggle("editing", Boolean(draft));
    byId("edit").textContent = draft ? "Save the mask" : "Correct";
    byId("edit").setAttribute("aria-pressed", String(Boolean(draft)));
    for (const tool of TOOLS) byId(`tool-${tool}`).setAttribute("aria-pressed", String(this.tool === tool));
    byId("edit-copy").hidden = (result?.slices ?? 1) < 2;
    byId("edit-undo").disabled = !this.#steps.undo.length;
    byId("edit-redo").disabled = !this.#steps.redo.length;
    byId("brush-value").textContent = byId("brush-size").value;
    if (!draft) return;
    const brush = { ...this.#at, radius: Number(byId("brush-size").value) / 2, label: this.#label };
    const colours = classColours(draft.result);
    this.viewer.draft = { map: draft.map, brush, colours, fill: Number(byId("edit-fill").value) / 100 };
    this.viewer.paint();
  }
}
