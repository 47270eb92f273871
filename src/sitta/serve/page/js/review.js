/** Decisions of a person: accept, needs fix, reject, a remark; and which mask they are about. */

import { ApiError, send } from "./api.js";
import { byId, choices, fill, make } from "./dom.js";
import { count, maskWords } from "./words.js";

/** @typedef {import("./state.js").Entry} Entry */
/** @typedef {import("./state.js").Said} Said */

export const DECISIONS = { accept: "Accepted", "needs-fix": "Needs fix", reject: "Rejected" };
const PAUSE = 250; // ms: a slider is still being moved
const NAME = "sitta-reviewer";

/** What is said where nothing was said yet. */
const OPEN = Object.freeze({ decision: "", mask: "adapted", threshold: null, remark: "" });

/** What is said of a slice, or of the whole. @param {Entry} entry @param {number | null} slice @returns {Said} */
export const saidOf = (entry, slice) => entry.said.get(slice) ?? entry.said.get(null) ?? OPEN;

/** The mask that is chosen in the slice that is shown. @param {Entry} entry */
export const choiceOf = (entry) => saidOf(entry, entry.slice);

/** The decision on an image: of the whole, or "slices" once each slice has one; empty if open. */
export function decisionOf(entry) {
  const whole = entry.said.get(null)?.decision;
  if (whole) return whole;
  const slices = entry.result?.slices ?? 0;
  if (slices < 2) return entry.said.get(0)?.decision ?? "";
  const all = Array.from({ length: slices }, (_, n) => entry.said.get(n)?.decision);
  if (!all.every(Boolean)) return "";
  return all.every((one) => one === all[0]) ? all[0] : "needs-fix";
}

/** The name in decisions.csv, kept for the next time. */
function reviewer(name) {
  try {
    if (name !== undefined) localStorage.setItem(NAME, name);
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return name ?? "";
  }
}

/** The bar below the image. */
export class Review {
  #timer = 0;

  /** @type {Array<{entry: Entry, slice: number | null, before: Said | undefined, at: number}>} */
  #done = [];

  /**
   * @param {import("./state.js").Store} store
   * @param {{say: (text: string) => void, show: (entry: Entry) => void}} act
   */
  constructor(store, act) {
    this.store = store;
    this.act = act;
    for (const decision of Object.keys(DECISIONS)) {
      byId(decision).addEventListener("click", () => this.decide(decision));
    }
    byId("each").addEventListener("click", () => this.toggleEach());
    byId("choice").addEventListener("change", () => this.choose({ mask: byId("choice").value, threshold: null }));
    byId("threshold").addEventListener("input", () => this.#slide());
    byId("remark").addEventListener("change", () => this.#remark());
    byId("remark").addEventListener("keydown", (event) => this.#key(event));
    byId("reviewer").value = reviewer();
    byId("reviewer").addEventListener("change", () => reviewer(byId("reviewer").value.trim()));
    store.on(["selection", "view", "entries", "review"], () => this.render());
  }

  /** What a decision is about: the slice that is shown, or null for all of the image. */
  #scope(entry) {
    return this.store.look.each && (entry.result?.slices ?? 1) > 1 ? entry.slice : null;
  }

  /** Decide on what is shown, and go on to what is still open. @param {string} decision */
  decide(decision) {
    const entry = this.store.selected;
    if (!entry?.result) return;
    const slice = this.#scope(entry);
    this.#done.push({ entry, slice, before: entry.said.get(slice), at: entry.slice });
    this.#put(entry, slice, { decision });
    this.#next(entry, decision);
  }

  /** Take the last decision back, and show what it was about. */
  undo() {
    const last = this.#done.pop();
    if (!last || !this.store.entries.includes(last.entry)) return;
    this.#put(last.entry, last.slice, last.before ?? OPEN);
    this.store.select(last.entry);
    last.entry.slice = last.at;
    this.store.changed("view");
    this.act.say(`The decision on ${last.entry.name} is taken back.`);
  }

  /** Choose a mask. @param {{mask: string, threshold: number | null}} choice */
  choose(choice) {
    const entry = this.store.selected;
    if (entry?.result) this.#put(entry, this.#scope(entry), choice);
  }

  /** The next of the masks that there are. */
  nextMask() {
    const entry = this.store.selected;
    if (!entry?.result) return;
    const all = this.masks(entry);
    const at = all.indexOf(choiceOf(entry).mask);
    this.choose({ mask: all[(at + 1) % all.length], threshold: null });
  }

  /** The masks to choose from. @param {Entry} entry @returns {string[]} */
  masks(entry) {
    return [...(entry.result?.masks ?? []), ...(entry.corrected ? ["corrected"] : [])];
  }

  /** A mask was drawn: it is chosen, for its slice if slices are decided one by one. @param {Entry} entry */
  corrected(entry, slice) {
    this.#put(entry, this.#scope(entry) === null ? null : slice, { mask: "corrected", threshold: null });
  }

  /** Decide slice by slice, or for the whole volume. */
  toggleEach() {
    if ((this.store.selected?.result?.slices ?? 1) > 1) this.store.show({ each: !this.store.look.each });
  }

  #key(event) {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    if (event.key === "Escape") this.render();
    byId("pane-now").focus();
  }

  #remark() {
    const entry = this.store.selected;
    if (entry?.result) this.#put(entry, this.#scope(entry), { remark: byId("remark").value.trim() });
  }

  #slide() {
    byId("threshold-value").textContent = Number(byId("threshold").value).toFixed(2);
    clearTimeout(this.#timer);
    const value = Number(byId("threshold").value);
    this.#timer = setTimeout(() => this.choose({ mask: "adapted", threshold: value === 0.5 ? null : value }), PAUSE);
  }

  /**
   * Say something at once here, then to the service; what it does not take is taken back.
   * @param {Entry} entry
   * @param {number | null} slice
   * @param {Partial<Said>} patch
   */
  async #put(entry, slice, patch) {
    const before = entry.said.get(slice);
    const said = { ...saidOf(entry, slice), ...(before ?? { decision: "", remark: "" }), ...patch };
    entry.said.set(slice, said);
    this.store.changed("review", "view", "entries");
    try {
      await this.tell(entry, slice);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (entry.said.get(slice) !== said) return;
      if (before) entry.said.set(slice, before);
      else entry.said.delete(slice);
      this.store.changed("review", "view", "entries");
      this.act.say(`${entry.name}: ${error.failure.message} ${error.failure.fix ?? ""}`);
    }
  }

  /** Send what is said, one after the other: the service keeps the last. */
  tell(entry, slice) {
    const { decision, mask, threshold, remark } = entry.said.get(slice);
    const body = { slice, decision, mask, threshold, remark, reviewer: byId("reviewer").value.trim() };
    const put = () => send(`api/results/${entry.result.id}/review`, "PUT", body);
    entry.telling = (entry.telling ?? Promise.resolve()).catch(() => undefined).then(put);
    return entry.telling;
  }

  /** Say everything of a result that was made again. @param {Entry} entry */
  async again(entry) {
    for (const slice of entry.said.keys()) await this.tell(entry, slice).catch(() => undefined);
  }

  /** Show what is open: a slice of the same volume, then the images after this one. */
  #next(entry, decision) {
    const done = `${entry.name}: ${DECISIONS[decision].toLowerCase()}.`;
    const slices = entry.result?.slices ?? 1;
    if (this.#scope(entry) !== null) {
      const order = Array.from({ length: slices }, (_, n) => (entry.slice + 1 + n) % slices);
      const open = order.find((n) => !entry.said.get(n)?.decision);
      if (open !== undefined) {
        entry.slice = open;
        this.store.changed("view");
        this.act.say(`${done} Now slice ${open + 1} of ${slices}.`);
        return;
      }
    }
    const all = this.store.sorted();
    const from = all.indexOf(entry);
    const open = [...all.slice(from + 1), ...all.slice(0, from)].find((one) => one.result && !decisionOf(one));
    if (open) this.act.show(open);
    const [made, total] = this.#progress();
    this.act.say(open ? `${done} ${made} of ${total} reviewed.` : `${done} All ${count(total, "image")} reviewed.`);
  }

  #progress() {
    const all = this.store.entries.filter((one) => one.status !== "failed");
    return [all.filter(decisionOf).length, all.length];
  }

  render() {
    const [made, total] = this.#progress();
    byId("reviewed").textContent = `${made} of ${total} reviewed`;
    const entry = this.store.selected;
    const result = entry?.result;
    if (!entry || !result) return;
    const slice = this.#scope(entry);
    const said = slice === null ? (entry.said.get(null) ?? OPEN) : (entry.said.get(slice) ?? { ...saidOf(entry, slice), decision: "", remark: "" });
    for (const decision of Object.keys(DECISIONS)) {
      byId(decision).setAttribute("aria-pressed", String(said.decision === decision));
    }
    byId("each").hidden = result.slices < 2;
    byId("each").setAttribute("aria-pressed", String(slice !== null));
    if (document.activeElement !== byId("remark")) byId("remark").value = said.remark;
    const { mask, threshold } = choiceOf(entry);
    const options = this.masks(entry).map((value) => ({ value, text: maskWords(value) }));
    const key = JSON.stringify([options, mask]);
    if (key !== this.made) choices(byId("choice"), options, mask);
    this.made = key;
    byId("threshold-box").hidden = !result.threshold || mask !== "adapted";
    if (document.activeElement !== byId("threshold")) byId("threshold").value = String(threshold ?? 0.5);
    byId("threshold-value").textContent = (threshold ?? 0.5).toFixed(2);
    fill(byId("show-mask-name"), maskWords(mask).replace(/ \(.*/, ""));
  }
}

/** The sign of a decision in the list; null if it is open. @param {Entry} entry */
export function badge(entry) {
  const decision = decisionOf(entry);
  return decision && make(`span.decided.${decision}`, {}, DECISIONS[decision]);
}
