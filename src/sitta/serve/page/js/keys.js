/** Single keys, and arrows on the image. They are listed in the help, and can be turned off there. */

import { byId, fill, make } from "./dom.js";
import { panned } from "./transform.js";
import { dragged, presets } from "./window.js";

const ONCE = ["1", "2", "3", "u", "x"];
const PAN = 40;
const NUDGE = 0.03;

/**
 * What each key does.
 * @param {any} parts
 * @returns {Array<{keys: string[], text: string, act: () => void}>}
 */
function shortcuts({ tools, zoom, list, review, edit, planes, dialogs }) {
  return [
    { keys: ["1"], text: "Accept", act: () => review.decide("accept") },
    { keys: ["2"], text: "Needs fix", act: () => review.decide("needs-fix") },
    { keys: ["3"], text: "Reject", act: () => review.decide("reject") },
    { keys: ["r"], text: "Remark", act: () => byId("remark").focus() },
    { keys: ["u"], text: "Take the last decision back", act: () => review.undo() },
    { keys: ["x"], text: "Choose the next mask", act: () => review.nextMask() },
    { keys: ["g"], text: "Decide slice by slice", act: () => review.toggleEach() },
    { keys: ["e"], text: "Correct the mask, or save it", act: () => (edit.draft ? edit.save() : edit.begin()) },
    { keys: ["j"], text: "Next image", act: () => list.step(1) },
    { keys: ["k"], text: "Image before", act: () => list.step(-1) },
    { keys: ["s"], text: "Source outline", act: () => tools.toggle("source") },
    { keys: ["a"], text: "Adapted outline", act: () => tools.toggle("mask") },
    { keys: ["m"], text: "Outline of the member", act: () => tools.toggle("members") },
    { keys: ["d"], text: "Differences", act: () => tools.toggle("changes") },
    { keys: ["h"], text: "Next heat map, or none", act: () => tools.nextHeat() },
    { keys: ["c"], text: "Side by side", act: () => tools.toggle("compare") },
    { keys: ["i"], text: "Three planes of a volume", act: () => planes.toggle() },
    { keys: ["["], text: "Member nearer to training", act: () => tools.stepMember(-1) },
    { keys: ["]"], text: "Member nearer to this image", act: () => tools.stepMember(1) },
    { keys: [",", "PageUp"], text: "Slice before", act: () => tools.stepSlice(-1) },
    { keys: [".", "PageDown"], text: "Next slice", act: () => tools.stepSlice(1) },
    { keys: ["n"], text: "Next slice to look at", act: () => tools.stepLook(1) },
    { keys: ["p"], text: "Slice to look at before", act: () => tools.stepLook(-1) },
    { keys: ["+", "="], text: "Zoom in", act: () => zoom.by(1.5) },
    { keys: ["-"], text: "Zoom out", act: () => zoom.by(1 / 1.5) },
    { keys: ["9"], text: "True size: pixel by pixel", act: () => zoom.full() },
    { keys: ["0"], text: "Fit", act: () => zoom.fit() },
    { keys: ["o"], text: "Choose files", act: () => dialogs.files() },
    { keys: ["t"], text: "Light or dark", act: () => dialogs.theme() },
    { keys: ["?"], text: "This list", act: () => dialogs.help() },
  ];
}

const HANDS = [
  ["Drag", "Move the image"],
  ["Wheel", "Zoom; slices of a volume (with Ctrl: zoom)"],
  ["Right button, or Shift and drag", "Window and level"],
  ["Double click", "Fit"],
  ["Arrows on the image", "Move it; with Shift: window and level"],
  ["While correcting", "B, W, F: brush, eraser, fill; [ ]: size; Z, Y: undo, redo; arrows and Space paint; Enter saves, Escape leaves"],
  ["Space, held", "Hides the outlines"],
  ["Arrows, Home, End in the list", "Choose an image; Delete removes it"],
];

/** Arrows on a pane. */
function onPane(store, viewer, event) {
  const ways = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const way = ways[event.key];
  const picture = viewer.picture();
  const entry = store.selected;
  if (!way || !picture || !entry?.result) return;
  event.preventDefault();
  if (event.shiftKey) {
    const now = entry.window ?? presets(entry.result).Auto;
    entry.window = dragged(now, -way[0] * NUDGE, -way[1] * NUDGE, entry.result.intensity);
    store.changed("view");
    return;
  }
  const view = panned(store.look.view, way[0] * PAN, way[1] * PAN, picture, viewer.panes[0].box);
  store.show({ view });
}

/** Whether a key belongs to the field that has the focus. */
function taken({ target }) {
  return target.matches("select, input:not([type=range]):not([type=checkbox]), textarea");
}

/** Whether a long key such as PageDown steps through slices; else it scrolls, as everywhere. */
function steps({ store, viewer }, { target }) {
  if ((store.selected?.result?.slices ?? 1) < 2) return false;
  const onPicture = viewer.panes.some(({ canvas }) => canvas === target);
  return onPicture || (target === document.body && byId("keys-on").checked);
}

/** Outlines are hidden as long as Space is held. */
function bare(store) {
  const hide = (bare) => store.look.bare !== bare && store.show({ bare });
  document.addEventListener("keydown", (event) => {
    const { target, key } = /** @type {any} */ (event);
    if (key !== " " || byId("help").open || !byId("keys-on").checked) return;
    if (target.matches("button, summary, input, select, a")) return;
    event.preventDefault();
    hide(true);
  });
  document.addEventListener("keyup", ({ key }) => key === " " && hide(false));
  addEventListener("blur", () => hide(false));
}

/** Listen to keys, and list them in the help. */
export function listen(parts) {
  const all = shortcuts(parts);
  const { store, viewer } = parts;
  const found = new Map(all.flatMap((one) => one.keys.map((key) => [key, one.act])));
  document.addEventListener("keydown", (event) => {
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open || taken(event)) return;
    if (key.length === 1 ? !byId("keys-on").checked : !steps(parts, event)) return;
    const act = found.get(key.length === 1 ? key.toLowerCase() : key);
    if (!act) return;
    event.preventDefault();
    if (event.repeat && ONCE.includes(key)) return; // a key held down decides once
    act();
  });
  bare(store);
  for (const { canvas } of viewer.panes) {
    canvas.addEventListener("keydown", (event) => onPane(store, viewer, event));
  }
  const row = (name, text) => make("div", {}, make("dt", {}, ...name), make("dd", {}, text));
  const keys = all.map(({ keys: names, text }) =>
    row(names.slice(0, 2).flatMap((name, i) => [i ? " " : null, make("kbd", {}, name)]), text));
  fill(byId("help-keys"), ...keys, ...HANDS.map(([name, text]) => row([name], text)));
}
