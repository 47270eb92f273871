/** What is drawn over an image besides outlines: a mask by hand, its brush, marks and a scale. */

/** A small canvas with given pixels. */
export function sheet(pixels, width, height) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  canvas.getContext("2d")?.putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas;
}

/** The longest of 1, 2, 5, 10, 20... that is not longer. */
export function rounded(length) {
  const power = 10 ** Math.floor(Math.log10(length));
  return Number(((length / power >= 5 ? 5 : length / power >= 2 ? 2 : 1) * power).toPrecision(1));
}

/** A mask as pixels, each class in its colour. */
function filled(values, colours) {
  const table = colours.map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
  const pixels = new Uint8ClampedArray(values.length * 4);
  for (let i = 0; i < values.length; i++) {
    if (values[i]) pixels.set([...table[(values[i] - 1) % table.length], 255], i * 4);
  }
  return pixels;
}

/** The mask that is being drawn, filled. */
export function paint(pen, { map, colours, fill }, at) {
  const { width, height } = map;
  pen.globalAlpha = fill;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(sheet(filled(map.values, colours), width, height), at.tx, at.ty, width * at.sx, height * at.sy);
  pen.globalAlpha = 1;
}

/** Where the brush is. */
export function brush(pen, { x, y, radius }, at) {
  pen.beginPath();
  pen.ellipse(x * at.sx + at.tx, y * at.sy + at.ty, radius * at.sx, radius * at.sx, 0, 0, 2 * Math.PI);
  for (const [width, colour] of [[3, "#000"], [1.5, "#fff"]]) {
    Object.assign(pen, { lineWidth: width, strokeStyle: colour });
    pen.stroke();
  }
}

/** What the model sees of the image, if it is not all. */
function region(pen, scene, at) {
  if (!scene.region) return;
  const per = scene.image.width / scene.columns; // pixels that are shown for one of the file
  const [[top, bottom], [left, right]] = scene.region.map((edges) => edges.map((edge) => edge * per));
  pen.setLineDash([3, 5]);
  for (const [width, colour] of [[3, "rgb(0 0 0 / 0.6)"], [1.25, "rgb(242 246 250 / 0.9)"]]) {
    Object.assign(pen, { lineWidth: width, strokeStyle: colour });
    pen.strokeRect(left * at.sx + at.tx, top * at.sy + at.ty, (right - left) * at.sx, (bottom - top) * at.sy);
  }
  pen.setLineDash([]);
  Object.assign(pen, { font: "12px system-ui, sans-serif", textAlign: "left", textBaseline: "bottom", lineWidth: 3 });
  Object.assign(pen, { strokeStyle: "rgb(0 0 0 / 0.8)", fillStyle: "#f2f6fa" });
  for (const act of ["strokeText", "fillText"]) pen[act]("seen by the model", left * at.sx + at.tx + 2, top * at.sy + at.ty - 2);
}

/** Where the other planes cut this one. */
function cross(pen, scene, at, { width, height }) {
  if (!scene.cross) return;
  const per = scene.image.width / scene.columns;
  const [x, y] = [(scene.cross.x + 0.5) * per * at.sx + at.tx, (scene.cross.y + 0.5) * per * at.sy + at.ty];
  Object.assign(pen, { lineWidth: 1, strokeStyle: "rgb(255 255 255 / 0.55)" });
  pen.beginPath();
  for (const line of [[0, y, width, y], [x, 0, x, height]]) {
    pen.moveTo(line[0], line[1]);
    pen.lineTo(line[2], line[3]);
  }
  pen.stroke();
}

/** L, R, A, P at the edges, a bar of a round length, what the model sees, where planes meet. */
export function ruler(pen, scene, at, box) {
  const { width: wide, height: high } = box;
  region(pen, scene, at);
  cross(pen, scene, at, box);
  Object.assign(pen, { font: "600 13px system-ui, sans-serif", textAlign: "center", textBaseline: "middle", lineWidth: 3 });
  const told = (text, x, y) => {
    Object.assign(pen, { strokeStyle: "rgb(0 0 0 / 0.8)", fillStyle: "#f2f6fa" });
    pen.strokeText(text, x, y);
    pen.fillText(text, x, y);
  };
  if (scene.marks) {
    const [left, right, top, bottom] = scene.marks;
    for (const [text, x, y] of [[left, 14, high / 2], [right, wide - 14, high / 2], [top, wide / 2, 14], [bottom, wide / 2, high - 14]]) told(text, x, y);
  }
  if (!scene.millimetres) return;
  const bar = rounded((wide / 4 / at.sx) * scene.millimetres * (scene.columns / scene.image.width));
  const length = (bar / scene.millimetres / (scene.columns / scene.image.width)) * at.sx;
  pen.setLineDash([]);
  for (const [thick, colour] of [[5, "rgb(0 0 0 / 0.8)"], [2, "#f2f6fa"]]) {
    Object.assign(pen, { lineWidth: thick, strokeStyle: colour });
    pen.beginPath();
    pen.moveTo(14, high - 34);
    pen.lineTo(14 + length, high - 34);
    pen.stroke();
  }
  pen.lineWidth = 3;
  told(bar >= 10 && bar % 10 === 0 ? `${bar / 10} cm` : `${bar} mm`, 14 + length / 2, high - 46);
}
