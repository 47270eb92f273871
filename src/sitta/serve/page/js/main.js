/** Puts the page together. */

import { ApiError, getFile, getJson } from "./api.js";
import { Changes } from "./changes.js";
import { byId, fill, make } from "./dom.js";
import { MOST, chosen, gather, onDrop } from "./drop.js";
import { Edit } from "./edit.js";
import { listen } from "./keys.js";
import { List } from "./list.js";
import { Panel } from "./panel.js";
import { Planes } from "./planes.js";
import { Pointer } from "./pointer.js";
import { Queue } from "./queue.js";
import { Review } from "./review.js";
import { Sitting } from "./sitting.js";
import { Settings } from "./settings.js";
import { Slices } from "./slices.js";
import { Store } from "./state.js";
import * as theme from "./theme.js";
import { Tools } from "./tools.js";
import { Viewer } from "./viewer.js";
import { Zoom } from "./zoom.js";
import { count, short } from "./words.js";

theme.start();
const store = new Store();
const slices = new Slices();
const queue = new Queue(store, slices, say);
const viewer = new Viewer(store, slices, gone);
const tools = new Tools(store, viewer, compare);
const zoom = new Zoom(store, viewer);
const list = new List(store, slices, remove);
const review = new Review(store, { say, show: (entry) => list.step(0, entry) });
const sitting = new Sitting(store, queue, list, say);
queue.renewed = (entry) => review.again(entry);
new Panel(store, { say, remove, retry, rerun });
new Settings(store, run);
new Changes(store, slices, { beside, callOff: (entry) => queue.callOff(entry) });
const planes = new Planes(store, slices, viewer, (slice) => tools.slice(slice));
const edit = new Edit(store, slices, viewer, review, say);
const hand = (pane, event, first) => edit.hand(pane, event, first);
new Pointer(store, viewer, { slice: (by) => tools.stepSlice(by), hover, hand });

/** Tell what happened, in the status line and to screen readers. @param {string} text */
function say(text) {
  byId("status").textContent = text;
}

/** A slice cannot be had: the service has forgotten the result, or does not answer. */
function gone(entry, failure) {
  if (failure.status !== 404) say(`${failure.message} ${failure.fix ?? ""}`);
  else if (entry.status === "done") {
    say(`The result of ${entry.name} was no longer kept; it is made again.`);
    queue.renew(entry);
  }
}

/** The button is gone then, so the focus goes to the image in the list, which says how far it is. */
function retry(entry) {
  queue.again(entry, store.recipe);
  list.focus();
}

/** Read an image another way: inverted, or turned. */
function rerun(entry, patch) {
  queue.again(entry, { ...entry.recipe, ...patch });
  say(`${entry.name} is run again.`);
}

/** After the last one, what has the focus is gone; the page starts over. */
function remove(entry) {
  queue.remove(entry);
  list.render();
  if (store.entries.length === 0) /** @type {any} */ (document.querySelector(".start [data-choose]")).focus();
}

/** Use settings for images that are still here; not where they are at work already. */
function run(entries, recipe) {
  const same = (entry, own) => entry.status !== "failed" && JSON.stringify(entry.recipe) === JSON.stringify(own);
  const { model, method, settings } = recipe;
  for (const entry of entries) {
    const own = { ...entry.recipe, model, method, settings }; // how it is read is its own
    if (store.entries.includes(entry) && !same(entry, own)) queue.again(entry, own);
  }
}

/** What people most likely want to see beside a result. */
function compare() {
  const rivals = store.selected?.result ? store.rivals(store.selected.result) : [];
  if (rivals.length > 0) beside(rivals[0].name); // the unadapted model is the first of the list
}

function beside(method) {
  const entry = store.selected;
  if (entry) queue.beside(entry, { model: entry.recipe.model, method, settings: {} });
}

/** @param {any} coming files that were dropped or chosen, or a promise of them */
async function take(coming, recipe = store.recipe) {
  const { found, unread, cut } = await coming;
  const { wanted, skipped, lost } = await gather(found);
  const told = [
    wanted.length ? `${count(wanted.length, "image")} taken.` : "There is no image in it.",
    skipped && `${count(skipped, "file")} passed over: no image.`,
    unread + lost && `${count(unread + lost, "file")} could not be read.`,
    cut && `Only the first ${MOST} files were looked at: drop the others later, or use sitta predict.`,
  ];
  say(told.filter(Boolean).join(" "));
  const { model, method, settings } = recipe; // not how the chosen image is read
  const added = queue.add(wanted, { model, method, settings });
  if (added.length) store.select(added[0]);
}

/** @param {{name: string, model?: string | null}} sample */
async function takeSample({ name, model }) {
  try {
    const blob = await getFile(`api/samples/${encodeURIComponent(name)}`);
    const known = store.about.models.some((one) => one.name === model);
    const recipe = known ? { ...store.recipe, model } : store.recipe;
    await take(chosen([new File([blob], name)]), recipe);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(`${name}: ${error.failure.message}`);
  }
}

/** What is below the pointer. @param {{x: number, y: number} | null} at @param {number} pane */
function hover(at, pane = 0) {
  const scene = viewer.scenes[pane];
  const box = byId("readout");
  const { width = 0, height = 0 } = scene?.image ?? {};
  box.hidden = !scene || !at || at.x < 0 || at.y < 0 || at.x >= width || at.y >= height;
  if (box.hidden || !scene) return;
  const i = at.y * width + at.x;
  const step = viewer.shown?.step ?? 1;
  const channels = scene.image.values.length / (width * height);
  const values = [...scene.image.values.subarray(i * channels, (i + 1) * channels)].map(short);
  const name = viewer.shown?.results[pane]?.classes[scene.mask.values[i] - 1] ?? "background";
  const bits = scene.heat ? ` · ${(scene.heat.values[i] / 255).toFixed(2)} bit` : "";
  box.textContent = `x ${at.x * step}  y ${at.y * step} · ${values.join(" ")} · ${name}${bits}`;
}

function buttons() {
  const files = byId("files");
  const folder = byId("folder");
  for (const input of [files, folder]) {
    input.addEventListener("change", () => {
      take(chosen(input.files));
      input.value = "";
    });
  }
  for (const one of document.querySelectorAll("[data-choose]")) {
    one.addEventListener("click", () => byId(one.getAttribute("data-choose")).click());
  }
  const help = byId("help");
  byId("help-open").addEventListener("click", () => help.showModal());
  byId("help-close").addEventListener("click", () => help.close());
  byId("theme").addEventListener("click", switchTheme);
  document.addEventListener("click", (event) => {
    const menus = document.querySelectorAll("details.menu[open]");
    for (const menu of menus) if (!menu.contains(/** @type {Node} */ (event.target))) menu.removeAttribute("open");
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    menu.removeAttribute("open");
    menu.querySelector("summary")?.focus();
  });
  const dialogs = { files: () => files.click(), theme: switchTheme, help: () => help.showModal() };
  listen({ store, viewer, tools, zoom, list, review, edit, planes, dialogs });
}

function switchTheme() {
  say(`The page is ${theme.toggle()} now.`);
}

/** A picture of a sample, or a sign for a volume, which a browser cannot show. */
function sampleSign(name) {
  if (!/\.(png|jpe?g)$/i.test(name)) return make("span.stack", { "aria-hidden": "true" }, "3D");
  return make("img", { src: `api/samples/${encodeURIComponent(name)}`, alt: "", width: 112, height: 112 });
}

function samples() {
  for (const id of ["samples", "samples-menu"]) {
    const items = store.about.samples.map((sample) => {
      const click = () => {
        byId("samples-menu").closest("details")?.removeAttribute("open");
        takeSample(sample);
      };
      const title = sample.title || sample.name;
      const picture = id === "samples" && sampleSign(sample.name);
      return make("li", {}, make("button", { type: "button", click }, picture, title));
    });
    fill(byId(id), ...items);
  }
}

async function begin() {
  buttons();
  onDrop(take);
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  byId("place").textContent = local ? "Images stay on this computer" : `Images go to ${location.host} and nowhere else`;
  const names = ["models", "methods", "samples", "scores", "notes", "limits"];
  try {
    const told = await Promise.all(names.map((name) => getJson(`api/${name}`)));
    Object.assign(store.about, ...told.slice(0, -1), { limits: told.at(-1) });
    await sitting.restore();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(`${error.failure.message} ${error.failure.fix ?? ""}`);
    return;
  }
  const usual = (all) => (all.find((one) => one.default) ?? all[0])?.name ?? "";
  if (!store.selected) store.recipe = { model: usual(store.about.models), method: usual(store.about.methods), settings: {} };
  samples();
  list.render();
  store.changed("about", "recipe");
  document.documentElement.dataset.ready = "yes";
}

begin();
