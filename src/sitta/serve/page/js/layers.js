/** What the service is asked for to draw the layers of a result. Pure. */

import { nearest, rowOf } from "./state.js";

/** @typedef {import("./state.js").Result} Result */

/** Height by width of a pixel. @param {Result} result */
export function ratioOf(result) {
  const [high, wide] = result.spacing?.slice(-2) ?? [1, 1];
  return high > 0 && wide > 0 ? high / wide : 1;
}

const AT_ONCE = 64 * 1024 * 1024; // bytes of members: of larger images, the one that is shown is fetched

/** Bytes of all members in a slice. @param {Result} result */
const bytesOf = ({ lambdas, shape }, step) => (lambdas.length * shape.slice(-2).reduce((a, b) => a * b, 1)) / step ** 2;

/** Whether all members of a slice may be held at once. @param {Result} result */
export const holdsAll = (result, step = 1) => bytesOf(result, step) <= AT_ONCE;

/** What holds the member that is shown: all of them, or that one alone. @param {Result} result */
export function membersKind(result, look, step = 1) {
  const name = result.member_names?.[nearest(result.lambdas, look)];
  return holdsAll(result, step) || name === undefined ? "members" : `mask&mask=${encodeURIComponent(`member@${name}`)}`;
}

/** Which raw slices a pane needs. @param {Result} result */
export function needed(result, look, mask, step = 1) {
  const kinds = ["image", mask];
  if (look.source && result.source_member !== null) kinds.push("source");
  if (look.members && result.lambdas.length > 1) kinds.push(membersKind(result, look, step));
  if (look.heat) kinds.push(look.heat);
  return step > 1 ? kinds.map((kind) => `${kind}&step=${step}`) : kinds;
}

/** The expected Dice of a slice for a caption; nothing where it is not known. */
export function diceOf(result, slice) {
  const dice = rowOf(result, slice).expected_dice;
  return typeof dice === "number" && ` · expected Dice ${dice.toFixed(2)}`;
}

/** What to ask the service for to get the mask of a choice. @param {import("./state.js").Said} said */
export function maskKind({ mask, threshold }, version = 0) {
  const parts = ["mask", mask !== "adapted" && `mask=${encodeURIComponent(mask)}`];
  parts.push(threshold !== null && `threshold=${threshold}`, mask === "corrected" && `version=${version}`);
  return parts.filter(Boolean).join("&");
}

/** Whether two results can be compared pixel by pixel; models may cut a volume in other ways. */
export function sameShape(one, other) {
  return Boolean(one && other) && String(one.shape) === String(other.shape);
}
