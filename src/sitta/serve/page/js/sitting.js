/** A sitting as a whole: restored from a session, linked to, saved, and not lost by accident. */

import { ApiError, getJson, send } from "./api.js";
import { byId, make } from "./dom.js";
import { count } from "./words.js";

/** Keeps what belongs to all images together. */
export class Sitting {
  #isKept = false;
  #saved = "";

  /**
   * @param {import("./state.js").Store} store
   * @param {import("./queue.js").Queue} queue
   * @param {import("./list.js").List} list
   * @param {(text: string) => void} say
   */
  constructor(store, queue, list, say) {
    Object.assign(this, { store, queue, list, say });
    byId("save-decisions").addEventListener("click", () => this.save("api/decisions.csv", "decisions.csv"));
    byId("save-all").addEventListener("click", () => this.save("api/archive.zip", "sitta.zip"));
    addEventListener("beforeunload", (event) => {
      const isDrawing = this.store.entries.some(({ unsaved }) => unsaved);
      if (isDrawing || (!this.#isKept && this.#work() !== this.#saved)) event.preventDefault();
    });
    addEventListener("hashchange", () => this.#follow());
    store.on(["selection", "view"], () => this.#link());
  }

  /** What a person did so far, to tell whether it was saved. */
  #work() {
    const done = this.store.entries.filter(({ said, corrected }) => said.size || corrected);
    return done.length ? JSON.stringify(done.map(({ key, said, corrections }) => [key, [...said], corrections])) : "";
  }

  /** Show what a session has kept. */
  async restore() {
    const { session, results } = await getJson("api/session");
    this.#isKept = session;
    const end = session ? "are kept in the folder of the session." : "are forgotten when sitta serve ends.";
    byId("place").textContent += `, and ${end}`;
    const groups = new Map();
    for (const one of results) {
      const key = one.answer.group || one.answer.id;
      groups.set(key, [...(groups.get(key) ?? []), one]);
    }
    for (const kept of groups.values()) this.queue.restore(kept);
    if (groups.size && !this.#follow()) this.store.select(this.store.sorted()[0]);
  }

  /** Choose the image and the slice that the address names. */
  #follow() {
    const [name, slice] = location.hash.slice(1).split("/").map(decode);
    const entry = this.store.entries.find((one) => one.name === name);
    if (!entry) return false;
    this.store.select(entry);
    if (entry.result && Number(slice) > 0) entry.slice = Math.min(entry.result.slices, Number(slice)) - 1;
    this.store.changed("view");
    return true;
  }

  /** Name the image and the slice in the address, so that it can be sent to others. */
  #link() {
    const entry = this.store.selected;
    if (!entry) return;
    const slice = (entry.result?.slices ?? 1) > 1 ? `/${entry.slice + 1}` : "";
    const hash = `#${encodeURIComponent(entry.name)}${slice}`;
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }

  /** Save a file about all results, in the order of the list. */
  async save(path, name) {
    const ids = this.store.sorted().flatMap(({ result }) => (result ? [result.id] : []));
    const work = this.#work();
    try {
      await Promise.all(this.store.entries.map(({ telling }) => telling));
      const address = URL.createObjectURL(await send(path, "POST", { ids }, "blob"));
      make("a", { href: address, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
      this.#saved = work;
      this.say(`${name} is saved.`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const again = error.failure.status === 404 ? await this.#renew() : 0;
      const failure = `${name}: ${error.failure.message} ${error.failure.fix ?? ""}`;
      this.say(again ? `${count(again, "result")} had expired and run again now. Save once more when they are done.` : failure);
    }
  }

  /** Make results again that the service no longer keeps. @returns {Promise<number>} how many */
  async #renew() {
    const done = this.store.entries.filter(({ result }) => result);
    const are = await Promise.all(done.map(({ result }) => getJson(`api/results/${result.id}/figures.json`).then(() => true, () => false)));
    const gone = done.filter((_, i) => !are[i]);
    for (const entry of gone) this.queue.renew(entry);
    return gone.length;
  }
}

/** Part of an address; as it is if it is no valid one. */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
