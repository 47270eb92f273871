/** The images of this sitting: added, sent a few at a time, run again, removed. */

import { ApiError, failureOf, forget, predict } from "./api.js";
import { tooMuch } from "./drop.js";
import { entryOf } from "./entry.js";
import { headOf } from "./verdict.js";

/** @typedef {import("./state.js").Entry} Entry */
/** @typedef {import("./state.js").Recipe} Recipe */

const AT_ONCE = 2;
const HISTORY = 6;
const LONG = 3000; // ms: the service replaces a worker that is stopped, which takes a while

/** Sends what waits, and puts down what comes back. */
export class Queue {
  /** @type {Entry[]} */
  #waiting = [];

  #running = 0;
  #keys = 0;

  /**
   * @param {import("./state.js").Store} store
   * @param {import("./slices.js").Slices} slices
   * @param {(text: string) => void} say tells what happened
   */
  constructor(store, slices, say) {
    this.store = store;
    this.slices = slices;
    this.say = say;
    /** Is called when a result was made again. @param {Entry} entry */
    this.renewed = (entry) => entry.said.clear();
  }

  /**
   * Add images and send them.
   * @param {Array<{name: string, files: File[]}>} found
   * @param {Recipe} recipe
   */
  add(found, recipe) {
    const entries = found.map(({ name, files }) => entryOf(this.#keys++, name, files, recipe));
    this.store.entries.push(...entries);
    this.store.changed("entries");
    for (const entry of entries) this.#enqueue(entry);
    return entries;
  }

  /** What is sent beside an image; in place of one that the service has kept. */
  #named({ name, group, files, result }) {
    return { path: name, group, again: files.length ? "" : (result?.id ?? "") };
  }

  /**
   * An image of a session, with its results, the last of which counts.
   * @param {Array<{answer: any, decisions: any[], corrected: boolean}>} kept
   */
  restore(kept) {
    const { answer, decisions, corrected } = kept[kept.length - 1];
    const { model, method, settings, invert, rotate } = answer;
    const read = { ...(invert && { invert }), ...(rotate && { rotate }) };
    const entry = entryOf(this.#keys++, answer.path, [], { model, method, settings, ...read });
    const said = new Map(decisions.map(({ slice, ...one }) => [slice, one]));
    const history = kept.map((one) => one.answer);
    Object.assign(entry, { status: "done", result: answer, slice: answer.shown, history, said, corrected, group: answer.group });
    this.store.entries.push(entry);
    this.store.changed("entries", "review");
  }

  /**
   * Adapt again, in another way; what ran for it is called off.
   * @param {Entry} entry
   * @param {Recipe} recipe
   */
  again(entry, recipe) {
    this.#leave(entry);
    entry.recipe = structuredClone(recipe);
    this.#waiting = this.#waiting.filter((one) => one !== entry);
    this.#enqueue(entry, true);
  }

  /**
   * Make a result again that the service no longer keeps, and forget those before it.
   * @param {Entry} entry
   */
  renew(entry) {
    for (const one of entry.history) if (one !== entry.result) this.#drop(one.id);
    Object.assign(entry, { other: null, history: [], lost: true });
    this.again(entry, entry.recipe);
  }

  /** Give up what runs for an image; what is nearly done is not worth stopping a worker for. */
  #leave(entry) {
    if (performance.now() - entry.since > LONG) entry.work?.abort();
    entry.work = null;
  }

  /**
   * A second result of an image to compare with; the first one stays.
   * @param {Entry} entry
   * @param {Recipe} recipe
   */
  async beside(entry, recipe) {
    this.callOff(entry);
    const title = this.store.title(recipe.method);
    this.say(`Running ${title} on ${entry.name}.`);
    const aside = new AbortController();
    Object.assign(entry, { aside, awaited: recipe.method, asked: performance.now() });
    this.store.changed("view");
    try {
      const result = await predict(entry.files, recipe, aside.signal, () => undefined, { ...this.#named(entry), group: "-" });
      if (entry.aside !== aside) {
        forget(result.id); // it was called off too late to stop it
        return;
      }
      this.#remember(entry, result);
      entry.other = result;
      this.say(`${title} is done in ${result.seconds.toFixed(1)} s.`);
    } catch (error) {
      if (entry.aside !== aside) return;
      this.say(`${title}: ${failureOf(error).message}`);
      if (!entry.other && entry === this.store.selected) this.store.show({ compare: false });
    }
    Object.assign(entry, { aside: null, awaited: "" });
    this.store.changed("selection", "view");
  }

  /**
   * Give up a comparison that is under way; what it comes to is forgotten.
   * @param {Entry} entry
   * @param {boolean} [now] stop it even if it is nearly done
   */
  callOff(entry, now = false) {
    if (now || performance.now() - entry.asked > LONG) entry.aside?.abort();
    Object.assign(entry, { aside: null, awaited: "" });
  }

  /** @param {Entry} entry */
  remove(entry) {
    entry.work?.abort();
    entry.work = null;
    this.callOff(entry, true);
    const order = this.store.sorted();
    const at = order.indexOf(entry);
    this.#waiting = this.#waiting.filter((one) => one !== entry);
    this.store.entries = this.store.entries.filter((one) => one !== entry);
    const kept = new Set([...entry.history, entry.result].filter((one) => one !== null));
    for (const { id } of kept) this.#drop(id);
    if (this.store.selected === entry) this.store.select(order[at + 1] ?? order[at - 1] ?? null);
    this.store.changed("entries");
    this.say(`${entry.name} is removed.`);
  }

  #drop(id) {
    this.slices.drop(id);
    forget(id);
  }

  #enqueue(entry, first = false) {
    Object.assign(entry, { status: "queued", failure: null, making: null });
    if (first) this.#waiting.unshift(entry);
    else this.#waiting.push(entry);
    this.store.changed("entries", "selection");
    this.#next();
  }

  #next() {
    while (this.#running < AT_ONCE && this.#waiting.length) {
      this.#running++;
      this.#send(this.#waiting.shift()).finally(() => {
        this.#running--;
        this.#next();
      });
    }
  }

  /** @param {any} entry */
  async #send(entry) {
    const work = new AbortController();
    Object.assign(entry, { status: "running", work, since: performance.now() });
    this.store.changed("entries", "selection");
    const waiting = (seconds) => {
      if (entry.work !== work) return;
      entry.status = "waiting";
      this.say(`The service is busy; ${entry.name} is tried again in ${seconds.toFixed(0)} s.`);
      this.store.changed("entries", "selection");
    };
    try {
      const refused = tooMuch(entry.files, this.store.about.limits);
      if (refused) throw new ApiError(refused);
      const recipe = this.store.asked(entry.recipe);
      const seen = (event) => entry.work === work && this.#seen(entry, event);
      const result = await predict(entry.files, recipe, work.signal, waiting, this.#named(entry), seen);
      if (entry.work !== work) {
        forget(result.id); // meanwhile it was asked for in another way
        return;
      }
      this.#done(entry, result);
    } catch (error) {
      if (entry.work !== work) return;
      const failure = failureOf(error);
      Object.assign(entry, { status: "failed", failure, work: null, making: null });
      this.say(`${entry.name} failed: ${failure.message}`);
    }
    this.store.changed("entries", "selection", "view");
  }

  /** The image is there, or one more slice of its mask. */
  #seen(entry, { event, answer, row, source }) {
    if (event === "image") entry.making = { ...answer, source };
    else if (entry.making) Object.assign(entry.making, { rows: [...entry.making.rows, row], source });
    if (event === "image" && !entry.result) entry.slice = answer.shown;
    if (entry.status === "waiting") entry.status = "running";
    this.store.changed("entries", "selection", "view");
  }

  #done(entry, result) {
    const before = entry.result;
    const stays = before || entry.isStepped; // who went to a slice stays there
    const slice = stays && entry.slice < result.slices ? entry.slice : result.shown;
    Object.assign(entry, { status: "done", work: null, making: null, result, slice });
    const again = this.#reviewed(entry, before);
    this.#remember(entry, result);
    if (before && entry.lost) this.#drop(before.id);
    else if (before) entry.other = before;
    entry.lost = false;
    this.say(`${entry.name} is done in ${result.seconds.toFixed(2)} s. ${headOf(result, this.store.about.severity)}.${again}`);
  }

  /** A decision stays if the same mask was made again; else it is open again. */
  #reviewed(entry, before) {
    const any = entry.said.size > 0;
    entry.corrected = false;
    this.store.changed("review");
    if (any && entry.lost && before) this.renewed(entry);
    else entry.said.clear();
    return any && !entry.said.size ? " Its mask may differ now: decide on it again." : "";
  }

  #remember(entry, result) {
    entry.history.push(result);
    while (entry.history.length > HISTORY) {
      const old = entry.history.find((one) => one !== entry.result && one !== entry.other);
      entry.history = entry.history.filter((one) => one !== old);
      this.#drop(old.id);
    }
  }
}
