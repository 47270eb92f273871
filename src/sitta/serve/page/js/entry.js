/** An image of this sitting, before anything is known of it. Pure. */

/** A name that no other image has. */
const token = () => [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("");

/** An image that waits. @returns {import("./state.js").Entry} */
export function entryOf(key, name, files, recipe) {
  const state = { failure: null, result: null, making: null, history: [], other: null, lost: false, said: new Map(), corrected: false };
  const under = { work: null, since: 0, aside: null, asked: 0, awaited: "" };
  const own = structuredClone(recipe);
  return { key, name, files, recipe: own, status: "queued", ...state, ...under, window: null, slice: 0, group: token() };
}
