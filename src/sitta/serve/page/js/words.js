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
  const all = methods.find(({ name }) => name === method)?.settings ?? [];
  const given = all.filter(({ name }) => settings[name] !== undefined && settings[name] !== null);
  const told = given.map(({ name, title }) => `${title} ${[settings[name]].flat().join(", ")}`);
  return [method, ...told, model].join(" · ");
}

/** What is said about the size and origin of an image. */
export function factsOf(result) {
  const sides = [...result.shape].reverse().join(" × ");
  const kinds = { nifti: "NIfTI", dicom: "DICOM" };
  const kind = kinds[result.kind.toLowerCase()] ?? result.kind.toUpperCase();
  return `${kind} · ${sides}`;
}

/**
 * A score of a row, after that of the unadapted model if there is one.
 * @param {import("./state.js").Score} score
 * @param {import("./state.js").Row} row
 */
export function scoreWords({ name, before, unit, digits, unknown }, row) {
  const words = (value) => {
    if (value === null) return unknown;
    return `${(unit === "%" ? 100 * value : value).toFixed(digits)} ${unit}`.trimEnd();
  };
  const known = before && row[before] !== null;
  return (known ? `${words(row[before])} → ` : "") + words(row[name]);
}

/**
 * How well the members agree, in a sentence.
 * @param {number | null} agreement
 * @param {number} members how many there are
 * @param {number} limit of this model, below which they disagree
 */
export function agreementWords(agreement, members, limit) {
  if (agreement === null) return "How far the members agree is not known.";
  if (members < 2) return "This method has a single member, so there is nothing to agree on.";
  const overlap = `their masks overlap by ${percent(agreement)} on average`;
  const verdict = agreement < limit ? "disagree" : "agree well";
  return `The members ${verdict}: ${overlap}; the limit of this model is ${percent(limit)}.`;
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
