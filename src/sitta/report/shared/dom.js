/** Small helpers for elements. Text only ever becomes text nodes, never markup. */

/**
 * The element with an id; a missing one is a mistake in index.html.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`There is no element #${id}.`);
  return found;
}

/**
 * Set attributes: true sets an empty one, false, null and undefined remove it.
 * @param {Element} element
 * @param {Record<string, any>} attributes
 */
export function assign(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === false || value === null || value === undefined) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * A new element: make("p.note", {id: "x"}, "text", child).
 * @param {string} spec tag and classes
 * @param {Record<string, any>} [attributes] functions become listeners
 * @param {...(Node | string | number | null | false)} children
 * @returns {any}
 */
export function make(spec, attributes = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  assign(element, attributes);
  fill(element, ...children);
  return element;
}

/**
 * The same for SVG.
 * @param {string} spec
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | number | null | false)} children
 * @returns {any}
 */
export function draw(spec, attributes = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  assign(element, attributes);
  fill(element, ...children);
  return element;
}

/**
 * Replace what is inside an element.
 * @param {Element} element
 * @param {...(Node | string | number | null | false)} children
 */
export function fill(element, ...children) {
  const shown = children.filter((child) => child !== null && child !== false);
  element.replaceChildren(...shown.map((child) => (child instanceof Node ? child : String(child))));
}

/**
 * Options of a select, with the chosen one kept if it is still there.
 * @param {HTMLSelectElement} select
 * @param {Array<{value: string, text: string, group?: string}>} options
 * @param {string} chosen
 */
export function choices(select, options, chosen) {
  /** @type {Map<string, Element>} */
  const groups = new Map();
  const top = [];
  for (const { value, text, group } of options) {
    const option = make("option", { value }, text);
    if (!group) top.push(option);
    else if (groups.has(group)) groups.get(group)?.append(option);
    else {
      groups.set(group, make("optgroup", { label: group }, option));
      top.push(groups.get(group));
    }
  }
  fill(select, ...top);
  select.value = chosen;
}
