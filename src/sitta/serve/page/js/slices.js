/** Raw slices of results, kept while there is room. */

import { getRaw } from "./api.js";

/** @typedef {{values: any, width: number, height: number, depth: number}} Raw */

const ROOM = 64 * 1024 * 1024; // bytes, besides what is shown now

/** Slices by result, kind and number; what was not used for longest goes first. */
export class Slices {
  /** @type {Map<string, Raw>} */
  #kept = new Map();

  /** @type {Map<string, Promise<Raw>>} */
  #coming = new Map();

  #bytes = 0;

  /** @type {Set<string>} what was asked for since the view changed: it stays */
  #wanted = new Set();

  /** The view changes: what was shown may go. */
  renew() {
    this.#wanted.clear();
  }

  /**
   * What is here already, or null.
   * @param {import("./state.js").Result} result
   * @param {string} kind
   * @param {number} slice
   * @returns {Raw | null}
   */
  here(result, kind, slice) {
    const key = `${result.id}/${kind}/${slice}`;
    this.#wanted.add(key);
    const found = this.#kept.get(key);
    if (!found) return null;
    this.#kept.delete(key);
    this.#kept.set(key, found);
    return found;
  }

  /**
   * The same, fetched if it is not here.
   * @param {import("./state.js").Result} result
   * @param {string} kind
   * @param {number} slice
   * @returns {Promise<Raw>}
   */
  get(result, kind, slice) {
    const key = `${result.id}/${kind}/${slice}`;
    const found = this.here(result, kind, slice);
    if (found) return Promise.resolve(found);
    let coming = this.#coming.get(key);
    if (!coming) {
      coming = getRaw(result.id, kind, slice).then((raw) => this.#keep(key, raw));
      this.#coming.set(key, coming);
      coming.catch(() => undefined).finally(() => this.#coming.delete(key));
    }
    return coming;
  }

  #keep(key, raw) {
    this.#kept.set(key, raw);
    this.#bytes += raw.values.byteLength;
    for (const [oldest, { values }] of this.#kept) {
      if (this.#bytes <= ROOM) break;
      if (oldest === key || this.#wanted.has(oldest)) continue;
      this.#kept.delete(oldest);
      this.#bytes -= values.byteLength;
    }
    return raw;
  }

  /** Forget a result. @param {string} id */
  drop(id) {
    for (const [key, { values }] of this.#kept) {
      if (!key.startsWith(`${id}/`)) continue;
      this.#kept.delete(key);
      this.#bytes -= values.byteLength;
    }
  }
}
