/** What the page knows, in one place; whoever changes it says which topics changed. */

import { FITTED } from "./transform.js";

/**
 * @typedef {object} Score a trust score, as the service declares it
 * @property {string} name of the property of a row
 * @property {string} title
 * @property {string} hint
 * @property {string} sentence
 * @property {string} unit a share with % is shown in per cent
 * @property {number} digits
 * @property {string} unknown shown where it is null
 * @property {string} before name of the score of the unadapted model, if there is one
 */

/**
 * @typedef {object} Members of one slice, or of a whole volume
 * @property {number | null} slice
 * @property {boolean} look
 * @property {string[]} notes
 * @property {number[]} weights
 * @property {number[]} entropies
 * @property {Array<number | null>} areas
 */

/** @typedef {Members & Record<string, any>} Row with its scores by name */

/**
 * @typedef {object} Result what the service says about one image
 * @property {string} id
 * @property {string} name
 * @property {string} model
 * @property {string} method
 * @property {Record<string, any>} settings
 * @property {string} kind
 * @property {number[]} shape
 * @property {number[] | null} spacing
 * @property {number} channels
 * @property {number} slices
 * @property {number} shown
 * @property {string[]} classes
 * @property {(string | null)[]} [colours] of the classes, where the profile has them
 * @property {number[]} lambdas
 * @property {string[]} [member_names] the lambda, or what says more
 * @property {number | null} source_member
 * @property {{agreement: number, distance: number | null}} limits beyond which a note is raised
 * @property {{low: number, high: number, window: number[]}} intensity
 * @property {number} doubt
 * @property {boolean} look
 * @property {number} seconds
 * @property {Row[]} rows
 * @property {boolean} invert whether the model saw it inverted
 * @property {number} rotate degrees clockwise by which the model saw it turned
 * @property {number[][] | null} region first and last edge of what the model sees, by rows and columns
 * @property {string[] | null} marks what lies left, right, above and below
 * @property {string[] | null} ends what lies at the first and the last slice
 * @property {string[]} masks those to choose from
 * @property {boolean} threshold whether the adapted mask takes another one
 * @property {Record<string, string>} links
 */

/** @typedef {{decision: string, mask: string, threshold: number | null, remark: string}} Said */

/** @typedef {{model: string, method: string, settings: Record<string, any>, invert?: boolean, rotate?: number}} Recipe */

/**
 * @typedef {object} Entry an image of this sitting
 * @property {number} key
 * @property {string} name
 * @property {File[]} files kept here, to be sent again for another method
 * @property {Recipe} recipe how it is, or is to be, adapted
 * @property {"queued" | "running" | "waiting" | "done" | "failed"} status
 * @property {import("./api.js").Failure | null} failure
 * @property {Result | null} result
 * @property {any} making the result on its way: its image and the scores of slices that are done
 * @property {Result[]} history all results so far, oldest first
 * @property {Result | null} other what it is compared with
 * @property {AbortController | null} work
 * @property {AbortController | null} aside of the method that runs to be compared with
 * @property {number} asked when that was sent
 * @property {string} awaited its name
 * @property {boolean} lost whether the service has forgotten its result
 * @property {number} since when it was sent
 * @property {{low: number, high: number} | null} window
 * @property {number} slice
 * @property {boolean} [isStepped] whether a person went to that slice before the result was there
 * @property {{x: number, y: number}} [cross] where three planes meet, in pixels of the file
 * @property {Map<number | null, Said>} said what a person says of a slice, or of all (null)
 * @property {string} group all results of the image have it
 * @property {number} [corrections] how often
 * @property {boolean} corrected whether a mask was drawn by hand
 * @property {any} [unsaved] a mask that is being drawn, or that the service did not take
 * @property {Promise<any>} [telling] the last of what is said, on its way
 */

/** @typedef {"review" | "entries" | "selection" | "view" | "recipe" | "about"} Topic */

/** State and its listeners. */
export class Store {
  /**
   * @type {{models: any[], methods: any[], samples: any[], scores: Score[], limits: Record<string, number>,
   *   notes: Record<string, string>, severity: Record<string, string>, advice: Record<string, string>, remedy: Record<string, string>}}
   */
  about = { models: [], methods: [], samples: [], scores: [], limits: {}, notes: {}, severity: {}, advice: {}, remedy: {} };

  /** @type {Entry[]} */
  entries = [];

  /** @type {Entry | null} */
  selected = null;

  /** @type {Recipe} */
  recipe = { model: "", method: "", settings: {} };

  /** How everything is looked at; the same for all images and panes. */
  look = {
    view: { ...FITTED },
    lam: 1, // of the member that is wanted; each result shows the nearest that it has
    member: 0, // its place where it was chosen, if several have the same lambda
    source: true,
    mask: true,
    members: false,
    changes: false,
    heat: "",
    most: 1,
    opacity: 0.85,
    compare: false,
    bare: false, // no outlines, as long as a key is held
    each: false, // decide slice by slice
    planes: false, // three planes of a volume
  };

  /** @type {Map<Topic, Array<() => void>>} */
  #listeners = new Map();

  /** @type {Set<Topic>} */
  #pending = new Set();

  /**
   * Call a function after any of the topics changed.
   * @param {Topic[]} topics
   * @param {() => void} listener
   */
  on(topics, listener) {
    for (const topic of topics) {
      this.#listeners.set(topic, [...(this.#listeners.get(topic) ?? []), listener]);
    }
  }

  /**
   * Say what changed; listeners run once, when the caller is done.
   * @param {...Topic} topics
   */
  changed(...topics) {
    if (this.#pending.size === 0) queueMicrotask(() => this.#tell());
    for (const topic of topics) this.#pending.add(topic);
  }

  #tell() {
    const due = new Set([...this.#pending].flatMap((topic) => this.#listeners.get(topic) ?? []));
    this.#pending.clear();
    for (const listener of due) listener();
  }

  /**
   * Change how things are looked at.
   * @param {Partial<Store["look"]>} patch
   */
  show(patch) {
    Object.assign(this.look, patch);
    this.changed("view");
  }

  /** @param {Entry | null} entry */
  select(entry) {
    if (entry === this.selected) return;
    this.selected = entry;
    this.look.view = { ...FITTED };
    if (entry) this.recipe = structuredClone(entry.recipe);
    this.changed("selection", "view", "recipe", "entries");
  }

  /** What a method is called. @param {string} name */
  title(name) {
    return this.about.methods.find((one) => one.name === name)?.title || name;
  }

  /** What to send for a recipe: a graph has its method built in. @param {Recipe} recipe */
  asked(recipe) {
    const model = this.about.models.find((one) => one.name === recipe.model);
    return model?.graph ? { ...recipe, method: "", settings: {} } : recipe;
  }

  /** Methods that a result can be compared with: a graph has no other. @param {Result} result */
  rivals({ model: name, method }) {
    const model = this.about.models.find((one) => one.name === name);
    const fits = (one) => one.name !== method && (model?.methods?.includes(one.name) ?? true);
    return model?.graph ? [] : this.about.methods.filter(fits);
  }

  /**
   * The images in the order of the list: those of the lowest expected Dice first; where that is
   * not known of all, those in most doubt. What is not done comes last.
   */
  sorted() {
    const rank = (entry) => (entry.result ? 0 : entry.status === "failed" ? 1 : 2);
    const known = this.entries.every(({ result }) => !result || expectedOf(result) !== null);
    const doubt = (result) => Math.max(result?.doubt ?? 0, result?.lambdas?.length === 1 ? 1 : 0); // one member alone tells nothing
    const worth = ({ result }) => (known ? expectedOf(result) : -doubt(result)) ?? 0;
    return [...this.entries].sort((a, b) => rank(a) - rank(b) || worth(a) - worth(b) || a.key - b.key);
  }
}

/** What can be shown of an image: its result, or the one on its way. @param {Entry | null} entry */
export const shownOf = (entry) => entry?.result ?? entry?.making ?? null;

/** The lowest expected Dice of a result's slices; null if it is not known. @param {Result | null} result */
export function expectedOf(result) {
  const all = (result?.rows ?? []).map((row) => row.expected_dice).filter((dice) => typeof dice === "number");
  return all.length ? Math.min(...all) : null;
}

/**
 * The number of the member to show: the one that was chosen, or the nearest in lambda.
 * @param {number[]} lambdas of a result
 * @param {{lam: number, member: number}} look
 */
export function nearest(lambdas, { lam, member }) {
  if (lambdas[member] === lam) return member;
  const far = (k) => Math.abs(lambdas[k] - lam);
  return lambdas.reduce((best, _, k) => (far(k) < far(best) ? k : best), 0);
}

/**
 * The scores of a slice; those of the volume if slices have none of their own.
 * @param {Result} result
 * @param {number} slice
 * @returns {Row}
 */
export function rowOf(result, slice) {
  return result.rows.find((row) => row.slice === slice) ?? result.rows[0];
}
