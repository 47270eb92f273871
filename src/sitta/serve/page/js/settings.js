/** Method and settings: a form made from what the service says about its methods. */

import { byId, choices, fill, make } from "./dom.js";

/**
 * @typedef {object} Setting
 * @property {string} name
 * @property {string} title
 * @property {boolean} main whether it is shown at once
 * @property {"choice" | "number" | "integer" | "boolean" | "text"} kind
 * @property {any} default
 * @property {string[] | null} choices
 * @property {number | null} minimum
 * @property {number | null} maximum
 * @property {string} help
 */

const PAUSE = 350; // ms: so that stepping through a list by keys does not run each on the way

/**
 * What is in a field, as the service wants it; undefined if it is as usual.
 * @param {Setting} setting
 * @param {any} field
 */
export function valueOf(setting, field) {
  if (setting.kind === "boolean") return field.checked === setting.default ? undefined : field.checked;
  const text = field.value.trim();
  if (text === "" || text === String(setting.default)) return undefined;
  if (setting.kind === "number" || setting.kind === "integer") return Number(text);
  if (setting.kind !== "text") return text;
  const parts = text.split(/[,;\s]+/).map(Number);
  return parts.some(Number.isNaN) ? text : parts;
}

/** The field of a setting. */
function fieldOf(setting, value, id) {
  const help = `${id}-help`;
  const common = { id, name: setting.name, "aria-describedby": help };
  const now = value ?? setting.default;
  if (setting.kind === "choice") {
    const select = make("select", common);
    choices(select, (setting.choices ?? []).map((text) => ({ value: text, text })), String(now));
    return select;
  }
  if (setting.kind === "boolean") return make("input", { ...common, type: "checkbox", checked: Boolean(now) });
  if (setting.kind === "text") {
    const text = Array.isArray(now) ? now.join(", ") : (now ?? "");
    return make("input", { ...common, type: "text", value: text, placeholder: "as usual", autocomplete: "off" });
  }
  const range = { min: setting.minimum, max: setting.maximum, step: setting.kind === "integer" ? 1 : "any" };
  const number = { ...common, ...range, type: "number", value: now ?? "" };
  return make("input", { ...number, inputmode: "decimal", placeholder: "as usual" });
}

/** The form. */
export class Settings {
  #timer = 0;

  /** @type {{entry: any, recipe: any} | null} what the timer waits for */
  #due = null;

  #made = "";

  /**
   * @param {import("./state.js").Store} store
   * @param {(entries: any[], recipe: any) => void} run
   */
  constructor(store, run) {
    this.store = store;
    this.run = run;
    byId("method").addEventListener("change", () => this.#change({ method: byId("method").value, settings: {} }));
    byId("model").addEventListener("change", () => this.#swap());
    byId("settings").addEventListener("change", () => this.#read());
    byId("settings").addEventListener("submit", (event) => event.preventDefault());
    byId("settings-reset").addEventListener("click", () => this.#change({ settings: {} }));
    byId("settings-all").addEventListener("click", () => this.run(store.entries, store.recipe));
    store.on(["selection"], () => this.#due?.entry !== store.selected && this.#flush()); // theirs, not the next one's
    store.on(["recipe", "about", "entries"], () => this.render());
  }

  /** Another model is run at once, and undoes decisions: it is asked for. */
  #swap() {
    const [model, entry] = [byId("model").value, this.store.selected];
    const lost = entry?.said.size ? " What you decided on it is open again then." : "";
    if (entry && !confirm(`Run ${entry.name} again with ${model}?${lost}`)) byId("model").value = this.store.recipe.model;
    else this.#change({ model });
  }

  #method() {
    return this.store.about.methods.find((one) => one.name === this.store.recipe.method);
  }

  #model() {
    return this.store.about.models.find((one) => one.name === this.store.recipe.model);
  }

  #change(patch) {
    Object.assign(this.store.recipe, patch);
    this.store.changed("recipe");
    clearTimeout(this.#timer);
    this.#due = { entry: this.store.selected, recipe: this.store.recipe };
    this.#timer = setTimeout(() => this.#flush(), PAUSE);
  }

  /** Run what was changed on the image that it was changed for. */
  #flush() {
    clearTimeout(this.#timer);
    const due = this.#due;
    this.#due = null;
    if (due?.entry) this.run([due.entry], due.recipe);
  }

  #read() {
    const form = byId("settings");
    if (!form.reportValidity()) return;
    const settings = {};
    for (const setting of this.#method()?.settings ?? []) {
      const value = valueOf(setting, form.elements.namedItem(setting.name));
      if (value !== undefined) settings[setting.name] = value;
    }
    this.#change({ settings });
  }

  render() {
    const { about, recipe } = this.store;
    if (about.models.length === 0) return;
    const options = (all) => all.map(({ name, title }) => ({ value: name, text: title || name }));
    const key = JSON.stringify([recipe, about.models.length]);
    byId("settings-all").hidden = this.store.entries.length < 2;
    if (key === this.#made) return;
    this.#made = key;
    choices(byId("model"), options(about.models), recipe.model);
    const model = this.#model();
    const fitting = about.methods.filter(({ name }) => model?.methods?.includes(name) ?? true);
    choices(byId("method"), options(fitting), recipe.method);
    const built = Boolean(model?.graph);
    byId("method").disabled = built;
    byId("model-note").textContent = model?.note ?? "";
    byId("method-about").textContent = built
      ? "This model is a graph: its method and settings are built in."
      : this.#method()?.summary ?? "";
    this.#fields(built ? [] : this.#method()?.settings ?? []);
  }

  /** @param {Setting[]} settings */
  #fields(settings) {
    const form = byId("settings");
    const active = document.activeElement;
    const focused = form.contains(active) ? active?.getAttribute("name") : null;
    const open = form.querySelector("details")?.open ?? false;
    const row = (setting) => {
      const id = `set-${setting.name}`;
      const field = fieldOf(setting, this.store.recipe.settings[setting.name], id);
      const label = make("label", { for: id }, setting.title);
      return make("div.set", {}, label, field, make("small", { id: `${id}-help` }, setting.help));
    };
    const [first, rest] = [true, false].map((shown) =>
      settings.filter(({ main }) => main === shown).map(row));
    const more = make("details", { open }, make("summary", {}, "More settings"), ...rest);
    fill(form, ...first, rest.length > 0 && more);
    if (focused) form.elements.namedItem(focused)?.focus();
  }
}
