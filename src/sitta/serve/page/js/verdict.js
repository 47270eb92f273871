/** The verdict on a result: expected Dice, what the notes say, what one click can do. Pure but for elements. */

import { make } from "./dom.js";
import { count, fixed, isBlind, named, sizeWords, structureOf } from "./words.js";

/** @typedef {import("./state.js").Result} Result */
/** @typedef {import("./state.js").Row} Row */

const HEADS = {
  stop: "Stop: do not use this mask as it is",
  check: "Look at this one",
  fine: "No warning sign; not checked by a person",
};
const BLIND = "Not judged: look at it yourself"; // one member and no calibration: no sign either way
const DECIDED = { accept: "Accepted by a person", "needs-fix": "Needs fix, says a person", reject: "Rejected by a person" };

/** What a click on a remedy sends along with the image. */
export const REMEDIES = {
  invert: { text: "Looks inverted: invert and rerun", patch: { invert: true } },
  "rotate-90": { text: "Looks turned: turn right by 90° and rerun", patch: { rotate: 90 } },
  "rotate-180": { text: "Looks upside down: turn by 180° and rerun", patch: { rotate: 180 } },
  "rotate-270": { text: "Looks turned: turn left by 90° and rerun", patch: { rotate: 270 } },
};

const TURNED = { 90: "turned right by 90°", 180: "turned by 180°", 270: "turned left by 90°" };

/** The gravest of the notes: stop, check or fine. @param {Row} row @param {Record<string, string>} severity */
export function graveness(row, severity) {
  const all = row.notes.map((code) => severity[code] ?? "check");
  return all.includes("stop") ? "stop" : all.includes("check") || row.look ? "check" : "fine";
}

/** The verdict on all slices in a few words. @param {Result} result @param {Record<string, string>} severity */
export function headOf(result, severity) {
  if (result.rows.some((row) => graveness(row, severity) === "stop")) return "Stop";
  if (result.look) return "Look at this one";
  return isBlind(result, result.rows[0]) ? "It is not judged" : "No warning sign";
}

/** Expected Dice of a row as number and range; null if the model is not calibrated. @param {Row} row */
export function expectedWords(row) {
  const { expected_dice: dice, expected_dice_low: low, expected_dice_high: high } = row;
  if (dice === null || dice === undefined) return null;
  const range = low === null || low === undefined ? "" : `${fixed(low, 2)} to ${fixed(high, 2)}`;
  return { dice: fixed(dice, 2), range };
}

/** The expected Dice with a plain sentence. */
function expected(result, row) {
  const words = expectedWords(row);
  const structure = structureOf(result);
  if (!words) {
    const title = "Without a calibration, scores cannot be turned into an expected Dice.";
    const told = isBlind(result, row) ? "a single member has nothing to compare with" : `doubt ${fixed(row.doubt, 2)}`;
    return [make("p.dice", { title }, make("b", {}, "Not calibrated"), ` · ${told}`)];
  }
  const within = words.range && `, most likely between ${words.range.replace(" to ", " and ")}`;
  return [
    make("p.dice", {}, "Expected Dice ", make("b", {}, words.dice), words.range && make("small", {}, ` ${words.range}`)),
    make("p", {}, `${structure}: against a drawing by hand, expect a Dice of ${words.dice}${within}.`),
  ];
}

/** How many slices of a volume need a look. */
function scope(rows, row) {
  const looks = rows.filter((one) => one.look).length;
  const about = `This is about slice ${(row.slice ?? 0) + 1}.`;
  if (looks === 0) return `${about} No slice of ${rows.length} has a warning sign.`;
  return `${about} ${count(looks, "slice needs", "slices need")} a look, of ${rows.length}.`;
}

/** The verdict in a line, for a phone, with what one click can do. */
export function lineOf(result, row, kind, { remedy = {} }, rerun) {
  const fine = isBlind(result, row) ? "Not judged" : "No warning sign";
  const head = { stop: "Stop", check: "Look at this one", fine }[kind];
  const dice = expectedWords(row);
  const range = dice?.range && ` (${dice.range})`;
  const words = `${structureOf(result)}: ${head} · ${dice ? `expected Dice ${dice.dice}${range}` : "not calibrated"}`;
  const offered = row.notes.map((code) => REMEDIES[remedy[code]]).filter(Boolean);
  return [make("span", {}, words), ...offered.map(({ text, patch }) => make("button", { type: "button", click: () => rerun(patch) }, text))];
}

/**
 * What to show of a verdict.
 * @param {Result} result
 * @param {Row} row
 * @param {{notes: Record<string, string>, severity: Record<string, string>, advice: Record<string, string>, remedy: Record<string, string>}} about
 * @param {{decision: string, rerun: (patch: Record<string, any>) => void}} person
 * @returns {{kind: string, parts: any[]}}
 */
export function verdict(result, row, about, { decision, rerun }) {
  const kind = graveness(row, about.severity);
  const button = (text, patch) => make("button.remedy", { type: "button", click: () => rerun(patch) }, text);
  const told = row.notes.map((code) => {
    const remedy = REMEDIES[about.remedy?.[code]];
    const text = named(about.advice[code] ?? "", result);
    const advice = !text.startsWith("Nothing") && make("small", {}, text);
    return make(`li.${about.severity[code] ?? "check"}`, { title: code }, named(about.notes[code] ?? code, result), " ", advice,
      remedy ? button(remedy.text, remedy.patch) : null);
  });
  const read = [result.invert && "inverted", TURNED[result.rotate]].filter(Boolean);
  const sign = isBlind(result, row) ? BLIND : decision ? "No warning sign" : HEADS.fine;
  const head = kind === "fine" ? sign : HEADS[kind];
  const mark = { stop: "×", check: "!", fine: "–" }[kind];
  return {
    kind,
    parts: [
      make("h3", {}, make("span.mark", { "aria-hidden": "true" }, mark), head),
      decision && make(`p.person.${decision}`, {}, DECIDED[decision]),
      ...expected(result, row),
      make("p", {}, sizeWords(result, row).replace(/ (?=%|mm²|ml)/g, "\u00a0")), // a unit stays with its number
      told.length > 0 && make("ul", {}, ...told),
      read.length > 0 && make("p", {}, `The model saw the image ${read.join(" and ")}. `,
        button("Undo that and rerun", { invert: false, rotate: 0 })),
      result.rows.length > 1 && make("p.scope", {}, scope(result.rows, row)),
    ],
  };
}
