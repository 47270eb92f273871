/** Buttons and sliders around the image: layers, zoom, window and level, slice, lambda. */

import { ramp } from "./colours.js";
import { plot, strip } from "./chart.js";
import { ALONE } from "./changes.js";
import { assign, byId, choices, fill, make } from "./dom.js";
import { nearest, rowOf, shownOf } from "./state.js";
import { levelOf, presets, rangeOf } from "./window.js";
import { fixed, isNamed, memberWords, short } from "./words.js";

const LAYERS = { source: "source", mask: "mask", members: "members", changes: "changes", compare: "compare" };

/** Keeps the controls and the look of things the same. */
export class Tools {
  /**
   * @param {import("./state.js").Store} store
   * @param {import("./viewer.js").Viewer} viewer
   * @param {() => void} beside finds something to compare with
   */
  constructor(store, viewer, beside) {
    this.store = store;
    this.beside = beside;
    this.viewer = viewer;
    for (const [id, layer] of Object.entries(LAYERS)) {
      byId(`show-${id}`).addEventListener("click", () => this.toggle(layer));
    }
    this.#listen("heat", "change", (value) => store.show({ heat: value }));
    this.#listen("most", "change", (value) => store.show({ most: Number(value) }));
    this.#listen("opacity", "input", (value) => store.show({ opacity: Number(value) / 100 }));
    this.#listen("lambda", "input", (value) => this.member(Number(value)));
    this.#listen("slice", "input", (value) => this.slice(Number(value)));
    this.#listen("preset", "change", (value) => this.#preset(value));
    for (const id of ["level", "width"]) this.#listen(id, "input", () => this.#window());
    byId("window-reset").addEventListener("click", () => this.#preset("Auto"));
    store.on(["selection", "view"], () => this.render());
    new ResizeObserver(() => this.#curves()).observe(byId("lambda"));
    new ResizeObserver(() => this.#curves()).observe(byId("slice"));
  }

  #listen(id, event, act) {
    byId(id).addEventListener(event, () => act(byId(id).value));
  }

  /** Turn a layer on or off. @param {string} layer */
  toggle(layer) {
    if (byId(`show-${layer}`).disabled) return;
    const alone = layer === "compare" ? { planes: false } : {};
    this.store.show({ ...alone, [layer]: !this.store.look[layer] });
    if (layer === "compare" && this.store.look.compare && !this.store.selected?.other) this.beside();
  }

  /** The next heat map, or none. */
  nextHeat() {
    const order = ["", "uncertainty", "disagreement"];
    const at = order.indexOf(this.store.look.heat);
    this.store.show({ heat: order[(at + 1) % order.length] });
  }

  /** Show a member. @param {number} number */
  member(number) {
    const lambdas = this.store.selected?.result?.lambdas ?? [];
    const member = Math.min(lambdas.length - 1, Math.max(0, number));
    if (lambdas.length > 1) this.store.show({ member, lam: lambdas[member], members: true });
  }

  /** @param {number} by */
  stepMember(by) {
    this.member(nearest(this.store.selected?.result?.lambdas ?? [1], this.store.look) + by);
  }

  /** Show a slice. @param {number} number */
  slice(number) {
    const entry = this.store.selected;
    const shown = shownOf(entry);
    if (!entry || !shown) return;
    entry.slice = Math.min(shown.slices - 1, Math.max(0, number));
    entry.isStepped = true;
    this.store.changed("view");
  }

  /** @param {number} by */
  stepSlice(by) {
    this.slice((this.store.selected?.slice ?? 0) + by);
  }

  /** The next slice to look at, or the one before. @param {number} by 1 or -1 */
  stepLook(by) {
    const entry = this.store.selected;
    const { rows = [], slices = 0 } = shownOf(entry) ?? {};
    if (!entry || rows.length < 2) return;
    const looks = new Set(rows.filter((row) => row.look).map((row) => row.slice));
    for (let n = entry.slice + by; n >= 0 && n < slices; n += by) if (looks.has(n)) return this.slice(n);
  }

  #preset(name) {
    const entry = this.store.selected;
    if (!entry?.result) return;
    entry.window = presets(entry.result)[name] ?? entry.window;
    this.store.changed("view");
  }

  #window() {
    const entry = this.store.selected;
    if (!entry) return;
    entry.window = rangeOf(Number(byId("level").value), Number(byId("width").value));
    this.store.changed("view");
  }

  render() {
    const { look, selected } = this.store;
    const result = selected?.result ?? null;
    /** @type {Record<string, boolean>} */
    const off = { source: result?.source_member === null, members: (result?.lambdas.length ?? 0) < 2, changes: !selected?.other };
    const alone = Boolean(result) && !selected?.other && this.store.rivals(/** @type {any} */ (result)).length === 0;
    assign(byId("show-compare"), { title: alone && ALONE });
    off.compare = alone;
    for (const [id, layer] of Object.entries(LAYERS)) {
      const button = byId(`show-${id}`);
      button.disabled = !result || Boolean(off[layer]);
      button.setAttribute("aria-pressed", String(Boolean(look[layer]) && !off[layer]));
    }
    byId("heat").value = look.heat;
    byId("most").value = String(look.most);
    byId("opacity").value = String(Math.round(look.opacity * 100));
    this.#legend();
    const making = result ? null : (selected?.making ?? null);
    for (const id of ["lambda-box", "single"]) byId(id).toggleAttribute("hidden", !result);
    if (selected && making) this.#slices(selected, making);
    if (selected && making) this.#strip(selected, making);
    if (!selected || !result) return;
    this.#levels(selected, result);
    this.#members(selected, result);
    this.#slices(selected, result);
    this.#describe(selected, result);
    this.#curves();
  }

  #legend() {
    const { heat, most } = this.store.look;
    byId("legend").hidden = !heat;
    if (!heat) return;
    const canvas = byId("scale");
    const colours = ramp(heat);
    Object.assign(canvas, { width: 256, height: 1 });
    const pixels = new Uint8ClampedArray(256 * 4).fill(255);
    for (let i = 0; i < 256; i++) pixels.set(colours.subarray(i * 3, i * 3 + 3), i * 4);
    canvas.getContext("2d")?.putImageData(new ImageData(pixels, 256, 1), 0, 0);
    fill(byId("legend-name"), `${heat[0].toUpperCase()}${heat.slice(1)}, bit`);
    fill(byId("legend-ends"), ...[0, most / 2, most].map((bits) => make("span", {}, short(bits))));
  }

  #levels(entry, result) {
    const known = presets(result);
    const now = entry.window ?? known.Auto;
    const { level, width } = levelOf(now);
    const { low, high } = result.intensity;
    const span = Math.max(high - low, 1e-30);
    const same = ([, range]) => range.low === now.low && range.high === now.high;
    const name = Object.entries(known).find(same)?.[0] ?? "";
    const options = Object.keys(known).map((text) => ({ value: text, text }));
    const key = `${result.id}/${name}`;
    if (key !== this.preset) choices(byId("preset"), name ? options : [{ value: "", text: "by hand" }, ...options], name);
    this.preset = key;
    const set = (id, min, max, value) => {
      Object.assign(byId(id), { min: String(min), max: String(max), step: String(span / 1000), value: String(value) });
      byId(`${id}-value`).textContent = short(value);
    };
    set("level", Math.min(low, level), Math.max(high, level), level);
    set("width", span / 500, Math.max(2 * span, width), width);
  }

  #members(entry, result) {
    const { look } = this.store;
    const several = result.lambdas.length > 1;
    byId("lambda-box").hidden = !several;
    byId("single").hidden = several;
    byId("single").textContent = `This method has a single member, at ${memberWords(result, 0)}.`;
    if (!several) return;
    const k = nearest(result.lambdas, look);
    const row = rowOf(result, entry.slice);
    const slider = byId("lambda");
    Object.assign(slider, { max: String(result.lambdas.length - 1), value: String(k) });
    const last = result.member_names?.at(-1);
    const [from, to] = [result.lambdas[0], result.lambdas.at(-1)];
    const alone = to === 0 ? ": this image alone" : "";
    byId("lambda-start").textContent = `λ ${short(from)}${result.source_member === 0 ? ": as trained" : ""}`;
    byId("lambda-end").textContent = isNamed(last) ? `λ 0, then ${last}` : `λ ${short(to)}${alone}`;
    const [lam, wanted] = [result.lambdas[k], look.lam].map(short);
    const near = look.members && lam !== wanted ? `, nearest to ${wanted}` : "";
    const told = [`entropy ${fixed(row.entropies[k])} bit`, `weight ${fixed(row.weights[k])}`];
    slider.setAttribute("aria-valuetext", [`${memberWords(result, k, "lambda ")}${near}`, ...told].join(", "));
    byId("member").textContent = `${memberWords(result, k)}${k === result.source_member ? ", source" : ""}${near}`;
    byId("member-entropy").textContent = told[0];
    byId("member-weight").textContent = told[1];
  }

  #slices(entry, result) {
    byId("slice-box").hidden = result.slices < 2;
    const slider = byId("slice");
    slider.max = String(result.slices - 1);
    slider.value = String(entry.slice);
    const text = `${entry.slice + 1} of ${result.slices}`;
    slider.setAttribute("aria-valuetext", text);
    byId("slice-value").textContent = text;
  }

  #describe(entry, result) {
    const { look } = this.store;
    const shown = [
      look.source && result.source_member !== null && "source outline, dashed",
      look.mask && "adapted outline",
      look.members && "outline of the member, dotted",
      look.heat && `${look.heat} map`,
    ].filter(Boolean);
    const slice = result.slices > 1 ? `, slice ${entry.slice + 1} of ${result.slices}` : "";
    const label = `${entry.name}${slice}. Shown: ${shown.join(", ") || "the image alone"}.`;
    byId("pane-now").setAttribute("aria-label", label);
    byId("pane-other").setAttribute("aria-label", `The same, compared: ${label}`);
  }

  #curves() {
    const entry = this.store.selected;
    const result = entry?.result;
    if (!entry || !result) return;
    const { entropies, weights } = rowOf(result, entry.slice);
    const { members: on } = this.store.look;
    const member = nearest(result.lambdas, this.store.look);
    const wide = byId("lambda").clientWidth;
    const key = [result.id, entry.slice, member, on, wide, byId("slice").clientWidth].join("/");
    if (key === this.drawn) return;
    this.drawn = key;
    const curve = { lambdas: result.lambdas, member_names: result.member_names, entropies, weights, member, on };
    if (wide && result.lambdas.length > 1) plot(byId("curve"), curve, wide, (k) => this.member(k));
    this.#strip(entry, result);
  }

  /** A volume in one piece has no scores of its slices. */
  #strip(entry, result) {
    const across = byId("slice").clientWidth;
    const each = result.slices > 1 && (result.dims === 2 || result.rows.length === result.slices);
    byId("strip").toggleAttribute("hidden", !each);
    if (across && each) strip(byId("strip"), result, entry.slice, across, (n) => this.slice(n));
  }
}
