/** Where an image lies in a pane. The view is kept in shares, so that linked panes agree. Pure. */

/** @typedef {{zoom: number, x: number, y: number}} View zoom 1 fits; x, y: shares at the middle */
/** @typedef {{width: number, height: number, ratio: number}} Picture ratio: height by width of a pixel */
/** @typedef {{width: number, height: number}} Box */
/** @typedef {{sx: number, sy: number, tx: number, ty: number}} Place */

export const FITTED = Object.freeze({ zoom: 1, x: 0.5, y: 0.5 });
const MOST = 64;
const MARGIN = 0.985;

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/**
 * From pixels of the image to those of the pane.
 * @param {View} view
 * @param {Picture} picture
 * @param {Box} box
 * @returns {Place}
 */
export function place(view, picture, box) {
  const fit = Math.min(box.width / picture.width, box.height / (picture.height * picture.ratio));
  const sx = fit * MARGIN * view.zoom;
  const sy = sx * picture.ratio;
  return {
    sx,
    sy,
    tx: box.width / 2 - view.x * picture.width * sx,
    ty: box.height / 2 - view.y * picture.height * sy,
  };
}

/**
 * Every how many pixels of an image are worth fetching for what the screen can show.
 * @param {number[]} sides height and width of the image
 * @param {Box} box
 * @param {number} zoom
 * @param {number} density pixels of the screen for one of CSS
 */
export function stepOf([height, width], box, zoom, density) {
  if (box.width < 2 || box.height < 2) return 1;
  const fit = Math.min(box.width / width, box.height / height) * zoom * density;
  return 2 ** Math.max(0, Math.min(6, Math.floor(Math.log2(1 / fit))));
}

/**
 * Zoom by a factor about a point of the pane, which stays where it is.
 * @param {View} view
 * @param {number} factor
 * @param {{x: number, y: number} | null} point the middle if null
 * @param {Picture} picture
 * @param {Box} box
 * @param {number} [least] a small image at its true size is smaller than one that fits
 * @returns {View}
 */
export function zoomed(view, factor, point, picture, box, least = 1) {
  const zoom = clamp(view.zoom * factor, Math.min(1, view.zoom, least), MOST);
  if (zoom === 1) return { ...FITTED };
  const before = place(view, picture, box);
  const at = point ?? { x: box.width / 2, y: box.height / 2 };
  const after = place({ ...view, zoom }, picture, box);
  const right = (at.x - box.width / 2) * (1 / before.sx - 1 / after.sx);
  const down = (at.y - box.height / 2) * (1 / before.sy - 1 / after.sy);
  return {
    zoom,
    x: clamp(view.x + right / picture.width, 0, 1),
    y: clamp(view.y + down / picture.height, 0, 1),
  };
}

/**
 * Move the image by pixels of the pane.
 * @param {View} view
 * @param {number} right
 * @param {number} down
 * @param {Picture} picture
 * @param {Box} box
 * @returns {View}
 */
export function panned(view, right, down, picture, box) {
  const { sx, sy } = place(view, picture, box);
  return {
    zoom: view.zoom,
    x: clamp(view.x - right / (sx * picture.width), 0, 1),
    y: clamp(view.y - down / (sy * picture.height), 0, 1),
  };
}
