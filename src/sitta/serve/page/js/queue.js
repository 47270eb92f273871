/** The images of this sitting: added, sent a few at a time, run again, removed. */

import { ApiError, forget, predict } from "./api.js";

/** @typedef {import("./state.js").Entry} Entry */
/** @typedef {import("./state.js").Recipe} Recipe */

const AT_ONCE = 2;
const HISTORY = 6;
const LONG = 3000; // ms: the service replaces a worker that is stopped, which takes a while

/**
 * What the service would refuse anyway, after a long upload; null if nothing.
 * @param {File[]} files
 * @param {Record<string, number>} limits
 * @returns {import("./api.js").Failure | null}
 */
export function tooMuch(files, limits) {
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  const megabytes = (size) => `${(size / 2 ** 20).toFixed(1)} MB`;
  const refuse = (message, allowed, fix) => ({ message, allowed, fix, status: 413 });
  if (bytes > limits.upload_bytes) {
    const allowed = `at most ${megabytes(limits.upload_bytes)}`;
    return refuse(`It is too large: ${megabytes(bytes)}.`, allowed, "use sitta predict, which has no such limit");
  }
  if (files.length > limits.files) {
    return refuse(`It has ${files.length} files.`, `at most ${limits.files}`, "use sitta predict");
  }
  return null;
}

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
  }

  /**
   * Add images and send them.
   * @param {Array<{name: string, files: File[]}>} found
   * @param {Recipe} recipe
   */
  add(found, recipe) {
    const entries = found.map(({ name, files }) => this.#entry(name, files, recipe));
    this.store.entries.push(...entries);
    this.store.changed("entries");
    for (const entry of entries) this.#enqueue(entry);
    return entries;
  }

  #entry(name, files, recipe) {
    const state = { failure: null, result: null, history: [], other: null, work: null, since: 0, awaited: "", lost: false };
    const key = this.#keys++;
    const own = structuredClone(recipe);
    return { key, name, files, recipe: own, status: "queued", ...state, window: null, slice: 0 };
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
    this.say(`Running ${recipe.method} on ${entry.name}.`);
    entry.awaited = recipe.method;
    this.store.changed("view");
    try {
      const { signal } = new AbortController();
      const result = await predict(entry.files, recipe, signal, () => undefined);
      this.#remember(entry, result);
      entry.other = result;
      this.say(`${recipe.method} is done in ${result.seconds.toFixed(1)} s.`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.say(`${recipe.method}: ${error.failure.message}`);
    } finally {
      entry.awaited = "";
    }
    this.store.changed("selection", "view");
  }

  /** @param {Entry} entry */
  remove(entry) {
    entry.work?.abort();
    entry.work = null;
    const order = this.store.sorted();
    const at = order.indexOf(entry);
    this.#waiting = this.#waiting.filter((one) => one !== entry);
    this.store.entries = this.store.entries.filter((one) => one !== entry);
    for (const { id } of entry.history) this.#drop(id);
    if (this.store.selected === entry) this.store.select(order[at + 1] ?? order[at - 1] ?? null);
    this.store.changed("entries");
    this.say(`${entry.name} is removed.`);
  }

  #drop(id) {
    this.slices.drop(id);
    forget(id);
  }

  #enqueue(entry, first = false) {
    Object.assign(entry, { status: "queued", failure: null });
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
      const result = await predict(entry.files, recipe, work.signal, waiting);
      if (entry.work !== work) {
        forget(result.id); // meanwhile it was asked for in another way
        return;
      }
      this.#done(entry, result);
    } catch (error) {
      if (entry.work !== work) return;
      if (!(error instanceof ApiError)) throw error;
      Object.assign(entry, { status: "failed", failure: error.failure, work: null });
      this.say(`${entry.name} failed: ${error.failure.message}`);
    }
    this.store.changed("entries", "selection", "view");
  }

  #done(entry, result) {
    const first = entry.result === null;
    const before = entry.result;
    Object.assign(entry, { status: "done", work: null, result });
    if (first || entry.slice >= result.slices) entry.slice = result.shown;
    this.#remember(entry, result);
    if (before && !entry.lost) entry.other = before;
    entry.lost = false;
    const verdict = result.look ? "Look at this one" : "Nothing unusual was noted";
    this.say(`${entry.name} is done in ${result.seconds.toFixed(2)} s. ${verdict}.`);
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
