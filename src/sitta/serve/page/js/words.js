/** Figures and settings as words. Pure. */

/** @param {number | null | undefined} value */
export function figure(value, digits = 3) {
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
 */
export function methodWords({ model, method, settings }) {
  const told = ["strategy", "step", "lam", "lambdas", "steps", "lr"]
    .filter((name) => settings[name] !== undefined && settings[name] !== null)
    .map((name) => `${settingWords(name)} ${[settings[name]].flat().join(", ")}`);
  return [method, ...told, model].join(" · ");
}

const NAMES = { lam: "λ", lambdas: "λ", lr: "learning rate", topk: "top k", rho: "ρ" };

/** The name of a setting for people. @param {string} name */
export const settingWords = (name) => NAMES[name] ?? name.replaceAll("_", " ");

/** What is said about the size and origin of an image. */
export function factsOf(result) {
  const sides = [...result.shape].reverse().join(" × ");
  const kinds = { nifti: "NIfTI", dicom: "DICOM" };
  const kind = kinds[result.kind.toLowerCase()] ?? result.kind.toUpperCase();
  return `${kind} · ${sides}`;
}

/**
 * How well the members agree, in a sentence.
 * @param {number | null} agreement
 * @param {number} members how many there are
 */
export function agreementWords(agreement, members) {
  if (agreement === null) return "How far the members agree is not known.";
  if (members < 2) return "This method has a single member, so there is nothing to agree on.";
  const share = `${Math.round(agreement * 100)} %`;
  if (agreement >= 0.9) return `The members agree well: their masks overlap by ${share} on average.`;
  if (agreement >= 0.7) return `The members agree in the main: their masks overlap by ${share} on average.`;
  return `The members disagree: their masks overlap by only ${share} on average.`;
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
