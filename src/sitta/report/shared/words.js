/** Scores and settings as words. Pure. */

/** @param {number | null | undefined} value */
export function fixed(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "not known";
  return value.toFixed(digits);
}

/** @param {number | null} share */
export const percent = (share) => (share === null ? "not known" : `${(share * 100).toFixed(1)} %`);

/** A number as short as it can be said: 0.2, 1, 0.05. */
export const short = (value) => String(Number(Number(value).toPrecision(4)));

/**
 * Method and settings of a result in a line.
 * @param {{model: string, method: string, settings: Record<string, any>}} recipe
 * @param {{name: string, settings: {name: string, title: string}[]}[]} methods as the service lists them
 */
export function methodWords({ model, method, settings }, methods) {
  const known = methods.find(({ name }) => name === method);
  const all = known?.settings ?? [];
  const given = all.filter(({ name }) => settings[name] !== undefined && settings[name] !== null);
  const told = given.map(({ name, title }) => `${title} ${[settings[name]].flat().join(", ")}`);
  return [known?.title || method, ...told, model].join(" · ");
}

/** What is said about the size and origin of an image. */
export function factsOf(result) {
  const sides = [...result.shape].reverse().join(" × ");
  const kinds = { nifti: "NIfTI", dicom: "DICOM" };
  const kind = kinds[result.kind.toLowerCase()] ?? result.kind.toUpperCase();
  return `${kind} · ${sides}`;
}

/** Whether a score compares members, and there is but one: it looks certain and says nothing. */
export const isAlone = ({ compares }, { lambdas }) => Boolean(compares) && lambdas.length < 2;

/** Whether nothing speaks for or against a mask: one member, and no calibration. */
export const isBlind = ({ lambdas }, row) => lambdas?.length === 1 && typeof row.expected_dice !== "number";

/** A score that says nothing of this result. @param {any} score @param {any} result @param {any} row */
export const isMute = (score, result, row) => isAlone(score, result) || (score.name === "doubt" && isBlind(result, row));

/**
 * A score of a row, after that of the unadapted model if there is one.
 * @param {import("./state.js").Score} score
 * @param {import("./state.js").Row} row
 */
export function scoreWords({ name, before, unit, digits, unknown, ends = [] }, row) {
  const words = (value) => {
    if (value === null || value === undefined) return unknown; // older records lack newer scores
    return `${(unit === "%" ? 100 * value : value).toFixed(digits)} ${unit}`.trimEnd();
  };
  const has = (key) => row[key] !== null && row[key] !== undefined;
  const known = before && has(before);
  const range = ends.length && has(name) ? ` (${ends.map((end) => words(row[end])).join(" to ")})` : "";
  return (known ? `${words(row[before])} → ` : "") + words(row[name]) + range;
}

/** What a mask shows: the names of its classes. @param {{classes: string[]}} result */
export function structureOf({ classes }) {
  const names = classes.length > 1 ? `${classes.slice(0, -1).join(", ")} and ${classes.at(-1)}` : (classes[0] ?? "");
  return names.charAt(0).toUpperCase() + names.slice(1);
}

/** Title of a score of a result: it names the structure. @param {{title: string}} score */
export const titleOf = ({ title }, result) =>
  result.classes.length ? title.replace("Foreground", structureOf(result)) : title;

/** A declared sentence about an image: it names the structure. @param {string} text */
export const named = (text, result) => text.replace(/\bforeground\b/g, structureOf(result).toLowerCase() || "foreground");

const SIZED = ["nifti", "dicom"]; // formats whose spacing is that of the patient

/**
 * How much the adapted mask covers, in the patient's units where they are known.
 * @param {any} result
 * @param {any} row
 */
export function sizeWords(result, row) {
  const share = `${structureOf(result)}: ${percent(row.area)} of the ${result.slices > 1 && result.rows.length === 1 ? "volume" : "image"}`;
  if (!result.spacing || !SIZED.includes(result.kind) || row.area === null) return `${share}.`;
  const [high, wide] = result.shape.slice(-2);
  const plane = high * wide * result.spacing.at(-2) * result.spacing.at(-1);
  const volume = (areas) => `${((areas * plane * result.spacing[0]) / 1000).toFixed(1)} ml`;
  if (result.slices < 2) return `${share}, ${(row.area * plane).toFixed(0)} mm².`;
  if (result.rows.length === 1) return `${share}, ${volume(row.area * result.slices)}.`;
  const all = result.rows.reduce((sum, one) => sum + (one.area ?? 0), 0);
  return `${share}, ${(row.area * plane).toFixed(0)} mm²; the whole volume, ${volume(all)}.`;
}

/** Whether a member is called otherwise than by its lambda. @param {string | undefined} name */
export const isNamed = (name) => Boolean(name) && Number.isNaN(Number(name));

/**
 * A member in words: its lambda, or its own name.
 * @param {{lambdas: number[], member_names?: string[]}} result
 * @param {number} k
 */
export function memberWords({ lambdas, member_names: names }, k, sign = "λ ") {
  return isNamed(names?.[k]) ? String(names?.[k]) : `${sign}${short(lambdas[k])}`;
}

/** What a mask is called. @param {string} name as the service has it */
export function maskWords(name) {
  if (name.startsWith("member@")) return `Member ${isNamed(name.slice(7)) ? name.slice(7) : `λ ${short(name.slice(7))}`}`;
  return { adapted: "Adapted", unadapted: "Unadapted", corrected: "Corrected" }[name] ?? name;
}

/** Counted things. */
export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

/** Name of the file that a download is saved as. */
export function saveAs(name, kind, slice, slices) {
  const stem = name.replace(/(\.nii(\.gz)?|\.[A-Za-z0-9]+)$/i, "") || "image";
  const [what, ...ending] = kind.split(".");
  const part = slices > 1 && ending.join(".") === "png" ? `-slice-${slice + 1}` : "";
  return `${stem}-${what}${part}.${ending.join(".")}`;
}
