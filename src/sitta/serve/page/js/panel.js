/** What is said about the chosen image: the verdict, the notes, the scores, what to keep. */

import { ApiError, getFile } from "./api.js";
import { table } from "./chart.js";
import { byId, fill, make } from "./dom.js";
import { commands, slicerLink } from "./elsewhere.js";
import { scoreRows } from "./scores.js";
import { choiceOf, decisionOf, saidOf } from "./review.js";
import { rowOf, shownOf } from "./state.js";
import { maskKind } from "./layers.js";
import { lineOf, verdict } from "./verdict.js";
import { factsOf, methodWords, saveAs, structureOf } from "./words.js";

/** @typedef {import("./state.js").Result} Result */
/** @typedef {import("./state.js").Row} Row */

const KEPT = [
  ["mask.png", "Mask, PNG"],
  ["mask.nii.gz", "Mask, NIfTI"],
  ["image.nii.gz", "Image, NIfTI"],
  ["probability.png", "Probability, PNG"],
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

/** How far the work on an image is. */
function runningWords({ making }) {
  if (!making || making.slices < 2 || making.dims > 2) return "Adapting the model to this image…";
  return `Adapting the model to this image: ${making.rows.length} of ${making.slices} slices`;
}

/** The right-hand column. */
export class Panel {
  /**
   * @param {import("./state.js").Store} store
   * @param {{say: (text: string) => void, remove: (entry: any) => void, retry: (entry: any) => void,
   *   rerun: (entry: any, patch: Record<string, any>) => void}} act
   */
  constructor(store, act) {
    this.store = store;
    this.act = act;
    this.shown = "";
    store.on(["selection", "view", "about", "review"], () => this.render());
    byId("remove").addEventListener("click", () => store.selected && act.remove(store.selected));
  }

  render() {
    const entry = this.store.selected;
    const result = entry?.result ?? null;
    const chosen = entry && maskKind(choiceOf(entry), entry.corrections);
    const key = `${entry?.key}/${result?.id}/${entry?.making?.rows.length}/${entry?.slice}/${entry?.status}/${chosen}/${entry && decisionOf(entry)}/${entry && choiceOf(entry).decision}`;
    if (key === this.shown) return;
    this.shown = key;
    byId("panel").hidden = !entry;
    byId("verdict-line").hidden = !result;
    document.documentElement.classList.toggle("has-result", Boolean(result));
    document.documentElement.classList.toggle("has-image", Boolean(shownOf(entry)));
    if (!entry) return;
    byId("name").textContent = entry.name;
    byId("facts").textContent = result ? `${factsOf(result)} · ${methodWords(result, this.store.about.methods)} · ${result.seconds.toFixed(2)} s` : "";
    this.#failure(entry);
    this.#stage(entry);
    if (!result) return;
    const row = rowOf(result, entry.slice);
    this.#verdict(entry, result, row);
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
      running: runningWords(entry),
      waiting: "The service is busy. Trying again…",
      failed: `No picture. ${entry.failure?.message ?? ""}`,
      done: "",
    };
    const box = byId("pending");
    box.hidden = Boolean(entry.result);
    box.className = `pending ${entry.status}${entry.making ? " beside" : ""}`;
    box.textContent = words[entry.status];
    const busy = !["done", "failed"].includes(entry.status);
    byId("stage").setAttribute("aria-busy", String(busy));
    byId("stage").classList.toggle("busy", busy);
  }

  /** @param {any} entry @param {Result} result @param {Row} row */
  #verdict(entry, result, row) {
    const decision = saidOf(entry, row.slice ?? null).decision || decisionOf(entry);
    const rerun = (patch) => this.act.rerun(entry, patch);
    const { kind, parts } = verdict(result, row, this.store.about, { decision, rerun });
    byId("verdict-line").className = `verdict-line ${kind}`;
    fill(byId("verdict-line"), ...lineOf(result, row, kind, this.store.about, rerun));
    byId("verdict").className = `verdict ${kind}`;
    fill(byId("verdict"), ...parts);
  }

  #scores(result, row) {
    const listed = this.store.about.scores.filter(({ name }) => !name.startsWith("expected_dice"));
    fill(byId("scores"), ...scoreRows(listed, result, row));
    const { lambdas, member_names } = result;
    const { entropies, weights, areas } = row;
    const curve = { lambdas, member_names, entropies, weights, areas, member: 0, on: false };
    fill(byId("members-table"), table({ ...curve, source: result.source_member, structure: structureOf(result) }));
  }

  #keep(entry, result) {
    const links = keptOf(result).map(([kind, text]) => {
      const part = kind.endsWith(".png") && result.slices > 1;
      const address = result.links[kind] ?? `api/results/${result.id}/${kind}`;
      const chosen = kind.startsWith("mask.") ? maskKind(choiceOf(entry), entry.corrections).split("&").slice(1) : [];
      const query = [part && `slice=${entry.slice}`, ...chosen].filter(Boolean).join("&");
      const href = query ? `${address}?${query}` : address;
      const name = saveAs(result.name, kind, entry.slice, result.slices);
      const words = part ? `${text} of this slice` : text;
      const click = (event) => this.#save(event, href, name);
      return make("li", {}, make("a.keep", { href, download: name, "data-kind": kind, click }, words));
    });
    fill(byId("downloads"), ...links);
    this.#elsewhere(entry, result);
  }

  /** Image and mask in another program. */
  #elsewhere(entry, result) {
    const rows = commands(result.name).map(({ title, command }) => {
      const copy = () => navigator.clipboard?.writeText(command).then(() => this.act.say("The command is copied."), () => this.act.say(command));
      return make("li", {}, make("b", {}, title), make("button", { type: "button", click: copy, "aria-label": `Copy the command for ${title}` }, "Copy"), make("code", {}, command));
    });
    const [image, mask] = ["image.nii.gz", "mask.nii.gz"].map((kind) => new URL(result.links[kind] ?? "", location.href));
    mask.search = maskKind(choiceOf(entry), entry.corrections).split("&").slice(1).join("&");
    const href = slicerLink(image.href, mask.href);
    const title = "Needs 3D Slicer with its Sandbox extension, and a service without a token";
    fill(byId("elsewhere"), ...rows, make("li", {}, make("a", { href, title }, "Open in 3D Slicer by a link")));
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
