/** Correct a mask by hand: brush, eraser, fill, and what cleans up; kept by the service. */

import { ApiError, send } from "./api.js";
import { fillHoles, flood, keepLargest, stroke } from "./brush.js";
import { classColours } from "./colours.js";
import { byId, choices } from "./dom.js";
import { saidOf } from "./review.js";
import { place } from "./transform.js";
import { maskKind, ratioOf } from "./layers.js";
import { structureOf } from "./words.js";

const ROOM = 64 * 2 ** 20; // bytes of steps that can be undone
const TOOLS = ["brush", "eraser", "fill"];

/** The editor of the mask in the slice that is shown. */
export class Edit {
  /** @type {any} the mask that is drawn on, or null */
  draft = null;

  tool = "brush";

  #undo = [];
  #redo = [];
  #at = null;

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
    byId("edit-undo").addEventListener("click", () => this.undo());
    byId("edit-redo").addEventListener("click", () => this.redo());
    byId("edit-copy").addEventListener("click", () => this.copy());
    byId("edit-cancel").addEventListener("click", () => this.#leave("The mask is as it was."));
    byId("edit-fill").addEventListener("input", () => this.#show());
    byId("brush-size").addEventListener("input", () => this.#show());
    store.on(["selection", "view"], () => this.#follow());
    document.addEventListener("keydown", (event) => this.#key(event), true);
    this.#show();
  }

  /** Draw on the mask that is chosen. */
  async begin() {
    const entry = this.store.selected;
    if (!entry?.result) return;
    this.viewer.whole = true;
    await this.viewer.refresh();
    const scene = this.viewer.scenes[0];
    const { shown } = this.viewer;
    if (!scene || entry !== this.store.selected || shown?.entry !== entry || shown.slice !== entry.slice || shown.step > 1) return;
    const { values, width, height } = scene.mask;
    this.draft = { entry, slice: entry.slice, map: { values: values.slice(), width, height }, changed: false };
    [this.#undo, this.#redo] = [[], []];
    this.#at = { x: width / 2, y: height / 2 };
    const names = entry.result.classes.map((text, i) => ({ value: String(i + 1), text }));
    choices(byId("edit-class"), names, "1");
    byId("edit-class-box").hidden = names.length < 2;
    byId("pane-now").focus();
    this.say(`Drawing on the ${structureOf(entry.result).toLowerCase()} of ${entry.name}. Arrows move the brush, Space paints.`);
    this.#show();
  }

  choose(tool) {
    this.tool = tool;
    this.#show();
  }

  /** Keep the mask, and choose it. */
  async save() {
    const { draft } = this;
    if (!draft || draft.saving) return;
    if (!draft.changed) {
      this.#leave("Nothing was drawn.");
      return;
    }
    const { entry, slice, map } = draft;
    draft.saving = true;
    try {
      await entry.telling?.catch(() => undefined); // the other slices begin as the service knows them
      await send(`api/results/${entry.result.id}/corrected?slice=${slice}`, "PUT", map.values);
    } catch (error) {
      draft.saving = false;
      if (!(error instanceof ApiError)) throw error;
      this.say(`The mask is not saved. ${error.failure.message} ${error.failure.fix ?? ""}`);
      return;
    }
    entry.corrected = true;
    entry.corrections = (entry.corrections ?? 0) + 1;
    this.#leave(`The corrected mask of ${entry.name} is saved.`);
    this.review.corrected(entry);
  }

  #leave(text) {
    this.draft = null;
    Object.assign(this.viewer, { draft: null, whole: false });
    this.store.changed("view", "review");
    this.say(text);
    this.#show();
  }

  /** Who goes elsewhere keeps what was drawn. */
  #follow() {
    const { draft } = this;
    const { selected } = this.store;
    if (draft && (selected !== draft.entry || selected?.slice !== draft.slice)) this.save();
    this.#show();
  }

  /** Do something that can be undone. @param {() => void} act */
  #step(act) {
    if (!this.draft) return;
    this.#remember(this.#undo);
    this.#redo = [];
    this.draft.changed = true;
    act();
    this.#show();
  }

  #remember(steps) {
    const { values } = this.draft.map;
    steps.push(values.slice());
    while (steps.length > 2 && steps.length * values.length > ROOM) steps.shift();
  }

  #each(act) {
    const labels = new Set(this.draft.map.values);
    for (const label of labels) if (label) act(this.draft.map, label);
  }

  undo() {
    this.#back(this.#undo, this.#redo);
  }

  redo() {
    this.#back(this.#redo, this.#undo);
  }

  #back(from, to) {
    if (!this.draft || !from.length) return;
    this.#remember(to);
    this.draft.map.values = from.pop();
    this.#show();
  }

  /** The mask of the slice before this one; of the first, that of the second. */
  async copy() {
    const { draft } = this;
    if (!draft || draft.entry.result.slices < 2) return;
    const from = draft.slice > 0 ? draft.slice - 1 : 1;
    const kind = maskKind(saidOf(draft.entry, from), draft.entry.corrections);
    const raw = await this.slices.get(draft.entry.result, kind, from).catch(() => null);
    if (!raw || this.draft !== draft) return;
    this.#step(() => { draft.map.values = raw.values.slice(); });
    this.say(`Slice ${from + 1} is copied.`);
  }

  get #label() {
    return this.tool === "eraser" ? 0 : Number(byId("edit-class").value) || 1;
  }

  /** Paint from one point of the image to another. */
  paint(from, to) {
    const { map, entry } = this.draft;
    if (this.tool !== "fill") {
      stroke(map, from, to, Number(byId("brush-size").value) / 2, ratioOf(entry.result), this.#label);
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
    const to = { x: (event.offsetX - tx) / sx, y: (event.offsetY - ty) / sy };
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
      byId("brush-size").value = String(Number(byId("brush-size").value) + by);
      this.#show();
    };
    const all = {
      b: () => this.choose("brush"), w: () => this.choose("eraser"), f: () => this.choose("fill"),
      "[": () => size(-2), "]": () => size(2), z: () => this.undo(), y: () => this.redo(),
      escape: () => this.#leave("The mask is as it was."), enter: () => onPane && this.save(),
      " ": () => onPane && this.#step(() => this.paint(this.#at, this.#at)),
    };
    const way = onPane && !event.ctrlKey ? ways[key] : null;
    if (way) {
      const by = event.altKey ? 1 : Math.max(1, Number(byId("brush-size").value) / 2);
      this.#at = { x: this.#at.x + way[0] * by, y: this.#at.y + way[1] * by };
      this.#show();
    } else if (!(key in all) || (command && !"zy".includes(key)) || ((key === " " || key === "enter") && !onPane)) return;
    else if (command && key === "z" && event.shiftKey) this.redo();
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
    byId("edit-undo").disabled = !this.#undo.length;
    byId("edit-redo").disabled = !this.#redo.length;
    byId("brush-value").textContent = byId("brush-size").value;
    if (!draft) return;
    const brush = { ...this.#at, radius: Number(byId("brush-size").value) / 2, label: this.#label };
    const map = { ...draft.map, values: draft.map.values.slice(), depth: 1 };
    const colours = classColours(draft.entry.result);
    this.viewer.draft = { map, brush, colours, fill: Number(byId("edit-fill").value) / 100 };
    this.viewer.paint();
  }
}
