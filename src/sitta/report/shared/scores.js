/** The panel of scores: a line each, with its sentence as a tooltip. Used by the page and the report. */

import { make } from "./dom.js";
import { isMute, scoreWords, titleOf } from "./words.js";

/**
 * The lines of a definition list.
 * @param {any[]} scores as they are declared
 * @param {{classes: string[], lambdas: number[]}} result
 * @param {any} row
 * @returns {HTMLElement[]}
 */
export function scoreRows(scores, result, row) {
  return scores.map((score) => {
    const name = make("dt", {}, titleOf(score, result), " ", make("small", {}, score.hint));
    const words = isMute(score, result, row) ? "one member only" : scoreWords(score, row);
    return make("div", { title: score.sentence }, name, make("dd", {}, words));
  });
}
