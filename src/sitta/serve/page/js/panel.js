/** What is said about the chosen image: the verdict, the notes, the scores, what to keep. */

import { ApiError, getFile } from "./api.js";
import { table } from "./chart.js";
import { byId, fill, make } from "./dom.js";
import { rowOf } from "./state.js";
import { agreementWords, count, factsOf, methodWords, saveAs, scoreWords } from "./words.js";

/** @typedef {import("./state.js").Result} Result */
/** @typedef {import("./state.js").Row} Row */

const KEPT = [
  ["mask.png", "Mask, PNG"],
  ["mask.nii.gz", "Mask, NIfTI"],
  ["probability.nii.gz", "Probability, NIfTI"],
  ["uncertainty.png", "Uncertainty, PNG"],
  ["uncertainty.nii.gz", "Uncertainty, NIfTI"],
  ["disagreement.png", "Disagreement, PNG"],
  ["disagreement.nii.gz", "Disagreement, NIfTI"],
  ["figures.json", "Scores, JSON"],
];

/** What can be kept of a result: what it lists, and pictures of the slice that is shown. */
function keptOf({ links, slices }) {
  const known = KEPT.filter(([kind]) => kind in links || (slices > 1 && kind.endsWith(".png")));
  const names = new Set(known.map(([kind]) => kind));
  const rest = Object.keys(links).filter((kind) => !names.has(kind)); // one for each class
  return [...known, ...rest.map((kind) => [kind, kind])];
}

/** The right-hand column. */
export class Panel {
  /**
   * @param {import("./state.js").Store} store
   * @param {{say: (text: string) => void, remove: (entry: any) => void, retry: (entry: any) => void}} act
   */
  constructor(store, act) {
    this.store = store;
    this.act = act;
    this.shown = "";
    store.on(["selection", "view", "about"], () => this.render());
    byId("remove").addEventListener("click", () => store.selected && act.remove(store.selected));
  }

  render() {
    const entry = this.store.selected;
    const result = entry?.result ?? null;
    const key = `${entry?.key}/${result?.id}/${entry?.slice}/${entry?.status}`;
    if (key === this.shown) return;
    this.shown = key;
    byId("panel").hidden = !entry;
    document.documentElement.classList.toggle("has-result", Boolean(result));
    if (!entry) return;
    byId("name").textContent = entry.name;
    byId("facts").textContent = result ? `${factsOf(result)} · ${methodWords(result, this.store.about.methods)} · ${result.seconds.toFixed(2)} s` : "";
    this.#failure(entry);
    this.#stage(entry);
    if (!result) return;
    const row = rowOf(result, entry.slice);
    this.#verdict(result, row);
    this.#scores(result, row);
    this.#keep(entry, result);
  }

  #failure(entry) {
    const { failure } = entry;
    const box = byId("failure");
    box.hidden = !failure;
    if (!failure) return;
    const part = (label, text) => text && make("p", {}, make("b", {}, `${label}: `), text.replace(/\.?$/, "."));
    fill(
      box,
      make("h3", {}, "This did not work"),
      make("p", {}, failure.message),
      part("Allowed", failure.allowed),
      part("What to do", failure.fix),
      make("p.buttons", {}, make("button", { type: "button", click: () => this.act.retry(entry) }, "Try again")),
    );
  }

  /** What stands in the place of a picture that is not there. */
  #stage(entry) {
    const words = {
      queued: "Waiting its turn…",
      running: "Adapting the model to this image…",
      waiting: "The service is busy. Trying again…",
      failed: `No picture. ${entry.failure?.message ?? ""}`,
      done: "",
    };
    const box = byId("pending");
    box.hidden = Boolean(entry.result);
    box.className = `pending ${entry.status}`;
    box.textContent = words[entry.status];
    const busy = !["done", "failed"].includes(entry.status);
    byId("stage").setAttribute("aria-busy", String(busy));
    byId("stage").classList.toggle("busy", busy);
  }

  /** @param {Result} result @param {Row} row */
  #verdict(result, row) {
    const { notes, severity, advice } = this.store.about;
    const rows = result.rows;
    const looks = rows.filter((one) => one.look).length;
    const head = row.look ? "Look at this one" : "Nothing unusual was noted";
    const slice = rows.length > 1 ? make("p.scope", {}, this.#scope(rows, row, looks)) : null;
    const sentences = row.notes.map((code) =>
      make(`li.${severity[code]}`, { title: code }, notes[code], " ", make("small", {}, advice[code])));
    byId("verdict").className = row.look ? "verdict look" : "verdict fine";
    fill(
      byId("verdict"),
      make("h3", {}, make("span.mark", { "aria-hidden": "true" }, row.look ? "!" : "✓"), head),
      sentences.length > 0 && make("ul", {}, ...sentences),
      make("p", {}, agreementWords(row.agreement, result.lambdas.length, result.limits.agreement)),
      !row.look && make("p.quiet", {}, "That is no proof that the mask is right."),
      slice,
    );
  }

  #scope(rows, row, looks) {
    const of = `This is about slice ${(row.slice ?? 0) + 1}.`;
    if (looks === 0) return `${of} No slice of ${rows.length} needs a look.`;
    return `${of} ${count(looks, "slice needs", "slices need")} a look, of ${rows.length}.`;
  }

  #scores(result, row) {
    const pairs = this.store.about.scores.map((score) => {
      const name = make("dt", {}, score.title, " ", make("small", {}, score.hint));
      return make("div", { title: score.sentence }, name, make("dd", {}, scoreWords(score, row)));
    });
    fill(byId("scores"), ...pairs);
    const { lambdas } = result;
    const { entropies, weights, areas } = row;
    const curve = { lambdas, entropies, weights, areas, member: 0, on: false };
    fill(byId("members-table"), table({ ...curve, source: result.source_member }));
  }

  #keep(entry, result) {
    const links = keptOf(result).map(([kind, text]) => {
      const part = kind.endsWith(".png") && result.slices > 1;
      const address = result.links[kind] ?? `api/results/${result.id}/${kind}`;
      const href = part ? `${address}?slice=${entry.slice}` : address;
      const name = saveAs(result.name, kind, entry.slice, result.slices);
      const words = part ? `${text} of this slice` : text;
      const click = (event) => this.#save(event, href, name);
      return make("li", {}, make("a.keep", { href, download: name, "data-kind": kind, click }, words));
    });
    fill(byId("downloads"), ...links);
  }

  /** Through a fetch, so that a result that is gone is said in words and not saved as a file. */
  async #save(event, href, name) {
    event.preventDefault();
    try {
      const address = URL.createObjectURL(await getFile(href));
      make("a", { href: address, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
      this.act.say(`${name} is saved.`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.act.say(`${name}: ${error.failure.message} ${error.failure.fix ?? ""}`);
    }
  }
}
