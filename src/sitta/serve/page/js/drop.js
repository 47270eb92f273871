/** Files and folders that people drop or choose, as images to send. */

import { series } from "./dicom.js";

/** @typedef {{file: File, path: string, asked: boolean}} Found asked: named itself, not by a folder */
/** @typedef {{name: string, files: File[]}} Wanted */

const ENDINGS = /\.(png|jpe?g|tiff?|bmp|gif|nii|nii\.gz|dcm|dicom|ima)$/i;
const MOST = 2000;

/** All files below an entry of a drop. @returns {Promise<Found[]>} */
async function below(entry, asked) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ file, path: entry.fullPath.replace(/^\//, ""), asked }];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found;
    for (const one of some) {
      if (found.length < MOST) found.push(...(await below(one, false)));
    }
  }
}

/**
 * What was dropped. The list of items is only alive until the first await.
 * @param {DataTransfer} transfer
 * @returns {Promise<Found[]>}
 */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return chosen(transfer.files);
  const found = [];
  for (const entry of entries) found.push(...(await below(entry, true)));
  return found;
}

/**
 * What was chosen by a button.
 * @param {Iterable<File>} files
 * @returns {Found[]}
 */
export function chosen(files) {
  return [...files].map((file) => ({
    file,
    path: file.webkitRelativePath || file.name,
    asked: !file.webkitRelativePath,
  }));
}

/** Of a folder, only what looks like an image: hidden files and texts are passed over. */
function looksRight({ file, asked }) {
  const plain = !file.name.startsWith(".") && file.name.toUpperCase() !== "DICOMDIR";
  return asked || (plain && (ENDINGS.test(file.name) || !file.name.includes(".")));
}

/**
 * One item an image; DICOM files of one series are one volume.
 * @param {Found[]} found
 * @returns {Promise<{wanted: Wanted[], skipped: number}>}
 */
export async function gather(found) {
  const right = found.filter(looksRight);
  right.sort((a, b) => a.path.localeCompare(b.path, "en", { numeric: true }));
  /** @type {Map<string, Wanted>} */
  const groups = new Map();
  for (const { file, path } of right) {
    const uid = await series(file);
    const group = groups.get(uid ?? path);
    if (group && uid) group.files.push(file);
    else groups.set(uid ?? path, { name: path, files: [file] });
  }
  const wanted = [...groups.values()].map((one) => (one.files.length > 1 ? seriesNamed(one) : one));
  return { wanted, skipped: found.length - right.length };
}

/** A series is called by its folder. */
function seriesNamed({ name, files }) {
  const folder = name.split("/").slice(0, -1).join("/");
  return { name: `${folder || name} (${files.length} files)`, files };
}

/**
 * Tell when something is dropped anywhere on the page.
 * @param {(found: Promise<Found[]>) => void} take
 */
export function onDrop(take) {
  const root = document.documentElement;
  let inside = 0;
  const over = (by) => {
    inside = Math.max(0, inside + by);
    root.classList.toggle("dropping", inside > 0);
  };
  const files = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => files(event) && over(1));
  addEventListener("dragleave", (event) => files(event) && over(-1));
  addEventListener("dragover", (event) => files(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!files(event) || !event.dataTransfer) return;
    event.preventDefault();
    inside = 0;
    over(0);
    take(dropped(event.dataTransfer));
  });
}
