/** The images of this sitting, those in most doubt first. */

import { byId, fill, make } from "./dom.js";
import { expectedOf } from "./state.js";
import { badge, decisionOf } from "./review.js";
import { stepOf } from "./transform.js";
import { graveness } from "./verdict.js";
import { thumbnail } from "./view.js";
import { ratioOf } from "./layers.js";
import { presets } from "./window.js";
import { count, fixed, isBlind } from "./words.js";

/** @typedef {import("./state.js").Entry} Entry */

const STATES = {
  queued: "waiting its turn",
  running: "being adapted",
  waiting: "service is busy, trying again",
  done: "",
  failed: "failed",
};

const LISTED = ["doubt", "agreement"];

/** What is said about an image in the list. @param {Entry} entry @param {any[]} scores */
function about(entry, scores) {
  const { result, failure, status } = entry;
  if (status === "failed") return failure?.message ?? "failed";
  const { making } = entry;
  if (making && making.slices > 1 && !result) return `${STATES[status]}: ${making.rows.length} of ${making.slices}`;
  if (status !== "done" || !result) return STATES[status];
  const row = result.rows[result.rows.length > 1 ? result.shown : 0];
  const dice = expectedOf(result);
  if (dice !== null) return `expected Dice ${fixed(dice, 2)}`;
  if (isBlind(result, row)) return "not judged: one member";
  const listed = LISTED.map((name) => scores.find((score) => score.name === name));
  return listed.map(({ name, title }) => `${title.toLowerCase()} ${fixed(row[name], 2)}`).join("\n");
}

/** A listbox: one of its options is in the order of tabs, arrows go on from there. */
export class List {
  /** @type {Map<Entry, {item: any, canvas: any, drawn: string, key: string, near: boolean}>} */
  #items = new Map();

  /** @type {WeakMap<Element, Entry>} */
  #entries = new WeakMap();

  /** Pictures are fetched of what is nearly seen. */
  #near = new IntersectionObserver(
    (all) => {
      for (const { target, isIntersecting } of all) {
        const entry = this.#entries.get(target);
        const known = entry && this.#items.get(entry);
        if (!known) continue;
        known.near = isIntersecting;
        this.#thumb(entry, known);
      }
    },
    { rootMargin: "400px" },
  );

  /**
   * @param {import("./state.js").Store} store
   * @param {import("./slices.js").Slices} slices
   * @param {(entry: Entry) => void} remove
   */
  constructor(store, slices, remove) {
    this.store = store;
    this.slices = slices;
    this.remove = remove;
    this.box = byId("list");
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.box.addEventListener("click", (event) => {
      const entry = this.#entryOf(event.target);
      if (entry) this.store.select(entry);
    });
    store.on(["entries", "selection", "review"], () => this.render());
  }

  #entryOf(target) {
    const item = target.closest("[role=option]");
    return this.store.entries.find((entry) => this.#items.get(entry)?.item === item) ?? null;
  }

  render() {
    const order = this.store.sorted();
    const focused = this.box.contains(document.activeElement);
    for (const entry of this.#items.keys()) {
      if (!this.store.entries.includes(entry)) this.#items.delete(entry);
    }
    const items = order.map((entry) => this.#item(entry));
    const same = items.length === this.box.children.length && items.every((item, i) => item === this.box.children[i]);
    if (!same) this.box.replaceChildren(...items);
    if (focused && !same) this.focus();
    this.#count();
    document.documentElement.classList.toggle("empty", order.length === 0);
  }

  #count() {
    const { entries } = this.store;
    const looks = entries.filter((entry) => entry.result?.look).length;
    const failed = entries.filter((entry) => entry.status === "failed").length;
    const busy = entries.filter((entry) => !["done", "failed"].includes(entry.status)).length;
    const parts = [
      entries.length ? count(entries.length, "image") : "none yet",
      busy && `${busy} to go`,
      looks && `${looks} to look at`,
      failed && `${failed} failed`,
    ];
    byId("count").textContent = parts.filter(Boolean).join(" · ");
  }

  #item(entry) {
    let known = this.#items.get(entry);
    if (!known) {
      const canvas = make("canvas.thumb", { "aria-hidden": "true" });
      const item = make("li", { role: "option", id: `entry-${entry.key}` });
      known = { item, canvas, drawn: "", key: "", near: false };
      this.#items.set(entry, known);
      this.#entries.set(item, entry);
      this.#near.observe(item);
    }
    const { item, canvas } = known;
    const chosen = entry === this.store.selected;
    const look = entry.status === "done" && entry.result?.look;
    const stop = look && entry.result?.rows.some((row) => graveness(row, this.store.about.severity) === "stop");
    const first = chosen || (!this.store.selected && this.store.sorted()[0] === entry);
    const key = [entry.status, entry.result?.id, entry.failure?.message, chosen, first, decisionOf(entry), entry.making?.rows.length].join("/");
    if (key === known.key) return item; // of a thousand images, few change at a time
    known.key = key;
    item.setAttribute("aria-selected", String(chosen));
    item.tabIndex = first ? 0 : -1;
    item.className = `item ${entry.status}${look ? " look" : ""}`;
    item.title = entry.name;
    const file = entry.name.split("/").pop() ?? entry.name;
    fill(
      item,
      canvas,
      make("span.name", {}, file),
      make("span.about", {}, about(entry, this.store.about.scores)),
      look && make(`span.sign${stop ? ".bad" : ""}`, {}, make("span.hidden", {}, stop ? "Stop" : "Look at this one")),
      badge(entry),
      entry.status === "failed" && make("span.sign.bad", {}, make("span.hidden", {}, "Failed")),
    );
    this.#thumb(entry, known);
    return item;
  }

  /** Drawn here from the slice in most doubt. */
  async #thumb(entry, known) {
    const { result } = entry;
    if (!result || !known.near || known.drawn === result.id) return;
    known.drawn = result.id;
    try {
      const step = stepOf(result.shape.slice(-2), { width: 52, height: 52 }, 1, 3);
      const kinds = ["image", "mask"].map((kind) =>
        this.slices.get(result, step > 1 ? `${kind}&step=${step}` : kind, result.shown));
      const [image, mask] = await Promise.all(kinds);
      const rest = { source: null, members: null, lambdas: [], heat: null, other: null, ratio: ratioOf(result) };
      const [classes, colours] = [result.classes.length, result.colours ?? []];
      thumbnail(known.canvas, { image, mask, ...rest, classes, colours, window: presets(result).Auto });
    } catch {
      known.drawn = ""; // gone meanwhile: the viewer asks for it again, and the list is told
    }
  }

  /** Put the focus on the chosen image. */
  focus() {
    const chosen = this.store.selected && this.#items.get(this.store.selected);
    chosen?.item.focus({ preventScroll: true });
  }

  /** Choose the image before or after. @param {number} by */
  step(by, to = null) {
    const order = this.store.sorted();
    if (!order.length) return;
    const at = this.store.selected ? order.indexOf(this.store.selected) : -by;
    const entry = to ?? order[Math.min(order.length - 1, Math.max(0, at + by))];
    this.store.select(entry);
    this.render();
    this.#items.get(entry)?.item.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #key(event) {
    const order = this.store.sorted();
    const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
    if (event.key in steps) this.step(steps[event.key]);
    else if (event.key === "Home") this.step(0, order[0]);
    else if (event.key === "End") this.step(0, order[order.length - 1]);
    else if (event.key === "Delete" && this.store.selected) this.remove(this.store.selected);
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.render();
    this.focus();
  }
}
