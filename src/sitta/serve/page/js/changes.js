/** What another method or setting changes: scores before and now, and both pictures side by side. */

import { byId, choices, fill, make } from "./dom.js";
import { overlap } from "./outline.js";
import { rowOf } from "./state.js";
import { sameShape } from "./layers.js";
import { fixed, isMute, methodWords, percent, titleOf } from "./words.js";

/** @typedef {import("./state.js").Result} Result */

const HINT = "Change the method or a setting above, or choose a method here, and see what it changes.";

/** Why there is nothing to compare with. */
export const ALONE = "This model has its one method built in: there is no other to compare with.";

/** One line of the table. @param {import("./state.js").Score} score */
function line(score, result, ...values) {
  const { unit, digits } = score;
  const title = titleOf(score, result);
  const [before, now] = values.map((value) => (value === null || unit !== "%" ? value : 100 * value));
  const name = unit ? `${title}, ${unit}` : title;
  const by = before === null || now === null ? null : now - before;
  const size = by === null ? "" : Math.abs(by).toFixed(digits);
  const sign = Number(size) === 0 ? "" : by > 0 ? "+" : "−";
  const none = () => [make("span", { "aria-hidden": "true" }, "–"), make("span.hidden", {}, "not known")];
  const cells = [before, now].map((value) => (value === null || value === undefined ? none() : [fixed(value, digits)]));
  return make("tr", {}, make("th", { scope: "row" }, name), ...[...cells, [sign + size]].map((parts) => make("td", {}, ...parts)));
}

/** The part of the panel that compares. */
export class Changes {
  /**
   * @param {import("./state.js").Store} store
   * @param {import("./slices.js").Slices} slices
   * @param {{beside: (method: string) => void, callOff: (entry: any) => void}} act runs another
   *   method for the chosen image, or gives up what runs
   */
  constructor(store, slices, act) {
    this.store = store;
    this.slices = slices;
    this.act = act;
    byId("other").addEventListener("change", () => this.#choose(byId("other").value));
    store.on(["selection", "view", "about"], () => this.render());
  }

  #choose(value) {
    const entry = this.store.selected;
    if (!entry) return;
    const [kind, name] = value.split(":");
    if (kind === "method") {
      this.store.show({ compare: true });
      this.act.beside(name);
      return;
    }
    this.act.callOff(entry);
    entry.other = entry.history.find((one) => one.id === name) ?? null;
    this.store.changed("selection", "view");
  }

  render() {
    const entry = this.store.selected;
    const result = entry?.result;
    if (!entry || !result) return;
    const earlier = entry.history.filter((one) => one !== result);
    const methods = this.store.rivals(result);
    const options = [
      { value: "", text: "nothing" },
      ...earlier.map((one) => ({ value: `result:${one.id}`, text: methodWords(one, this.store.about.methods), group: "Earlier results" })),
      ...methods.map((one) => ({ value: `method:${one.name}`, text: one.title || one.name, group: "Run now" })),
    ];
    const key = JSON.stringify([options, entry.other?.id, entry.awaited]);
    const chosen = entry.awaited ? `method:${entry.awaited}` : entry.other && `result:${entry.other.id}`;
    if (key !== this.made) choices(byId("other"), options, chosen ?? "");
    this.made = key;
    byId("compare-hint").hidden = Boolean(entry.other);
    byId("compare-hint").textContent = methods.length ? HINT : ALONE;
    this.#table(entry, result, entry.other);
  }

  /** @param {any} entry @param {Result} now @param {Result | null} before */
  async #table(entry, now, before) {
    const box = byId("changes");
    const { slice } = entry;
    const key = `${now.id}/${before?.id}/${slice}`;
    box.hidden = !before;
    if (!before || key === this.compared) return;
    this.compared = key;
    const [one, other] = [rowOf(before, slice), rowOf(now, slice)];
    const { scores } = this.store.about;
    const named = (result) => this.store.title(result.method);
    const alike = named(before) === named(now);
    const titles = alike ? [`${named(before)} before`, `${named(now)} now`] : [named(before), named(now)];
    const head = ["", ...titles, "change"].map((text) => make("th", { scope: "col" }, text || make("span.hidden", {}, "Score")));
    const dice = scores.filter(({ name }) => name === "expected_dice");
    const rows = [...dice, ...scores.filter((score) => !dice.includes(score))].map((score) =>
      line(score, now, ...[[before, one], [now, other]].map(([result, row]) => (isMute(score, result, row) ? null : row[score.name]))));
    const note = make("p.quiet", { id: "overlap" }, "");
    fill(box, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)), note);
    if (!sameShape(before, now)) return;
    try {
      const both = await Promise.all([before, now].map((r) => this.slices.get(r, "mask", slice)));
      note.textContent = this.#overlap(both[0].values, both[1].values);
    } catch {
      note.textContent = "The masks are no longer kept by the service."; // one of them ran out
    }
  }

  #overlap(one, other) {
    const changed = one.reduce((sum, value, i) => sum + (value === other[i] ? 0 : 1), 0);
    const share = percent(changed / one.length);
    if (changed === 0) return "The masks of both are the same, pixel for pixel.";
    return `The masks differ in ${changed} pixels (${share}); their overlap (Dice) is ${fixed(overlap(one, other))}.`;
  }
}
