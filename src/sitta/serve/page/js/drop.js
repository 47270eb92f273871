/** Files and folders that people drop or choose, as images to send. */

import { series } from "./dicom.js";

/** @typedef {{file: File, path: string, asked: boolean}} Found asked: named itself, not by a folder */
/** @typedef {{found: Found[], unread: number, cut: boolean}} Haul unread: what could not be opened */
/** @typedef {{name: string, files: File[]}} Wanted */

const ENDINGS = /\.(png|jpe?g|tiff?|bmp|gif|nii|nii\.gz|dcm|dicom|ima)$/i;

/** Files of one drop; who has more is better served by sitta predict. */
export const MOST = 2000;

/** Take what an entry of a drop is, or all that is below it. @param {Haul} haul */
async function collect(entry, asked, haul) {
  haul.cut ||= haul.found.length >= MOST;
  if (haul.cut) return;
  try {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      haul.found.push({ file, path: entry.fullPath.replace(/^\//, ""), asked });
      return;
    }
    const reader = entry.createReader();
    while (!haul.cut) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const one of some) await collect(one, false, haul);
    }
  } catch {
    haul.unread++; // gone meanwhile, or not allowed
  }
}

/**
 * What was dropped. The list of items is only alive until the first await.
 * @param {DataTransfer} transfer
 * @returns {Promise<Haul>}
 */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return chosen(transfer.files);
  const haul = { found: [], unread: 0, cut: false };
  for (const entry of entries) await collect(entry, true, haul);
  return haul;
}

/**
 * What was chosen by a button.
 * @param {Iterable<File>} files
 * @returns {Haul}
 */
export function chosen(files) {
  const found = [...files].map((file) => ({
    file,
    path: file.webkitRelativePath || file.name,
    asked: !file.webkitRelativePath,
  }));
  return { found, unread: 0, cut: false };
}

/** Of a folder, only what looks like an image: hidden files and texts are passed over. */
function looksRight({ file, asked }) {
  const plain = !file.name.startsWith(".") && file.name.toUpperCase() !== "DICOMDIR";
  return asked || (plain && (ENDINGS.test(file.name) || !file.name.includes(".")));
}

/**
 * One item an image; DICOM files of one series are one volume.
 * @param {Found[]} found
 * @returns {Promise<{wanted: Wanted[], skipped: number, lost: number}>}
 */
export async function gather(found) {
  const right = found.filter(looksRight);
  right.sort((a, b) => a.path.localeCompare(b.path, "en", { numeric: true }));
  /** @type {Map<string, Wanted>} */
  const volumes = new Map(); // by the number of their series
  /** @type {Wanted[]} */
  const images = []; // two of one name are two images
  let lost = 0;
  for (const { file, path } of right) {
    const uid = await series(file).catch(() => undefined); // undefined: it cannot be read
    if (uid === undefined) {
      lost++;
      continue;
    }
    const volume = uid && volumes.get(uid);
    if (volume) {
      volume.files.push(file);
      continue;
    }
    images.push({ name: path, files: [file] });
    if (uid) volumes.set(uid, images[images.length - 1]);
  }
  const wanted = images.map((one) => (one.files.length > 1 ? seriesNamed(one) : one));
  return { wanted, skipped: found.length - right.length, lost };
}

/** A series is called by its folder. */
function seriesNamed({ name, files }) {
  const folder = name.split("/").slice(0, -1).join("/");
  return { name: `${folder || name} (${files.length} files)`, files };
}

/**
 * Tell when something is dropped anywhere on the page.
 * @param {(haul: Promise<Haul>) => void} take
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

/**
 * What the service would refuse anyway, after a long upload; null if nothing.
 * @param {File[]} files
 * @param {Record<string, number>} limits
 * @returns {import("./api.js").Failure | null}
 */
export function tooMuch(files, limits) {
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  const megabytes = (size) => `${(size / 2 ** 20).toFixed(1)} MB`;
  const refuse = (message, allowed, fix) => ({ message, allowed, fix, status: 413 });
  if (bytes > limits.upload_bytes) {
    const allowed = `at most ${megabytes(limits.upload_bytes)}`;
    return refuse(`It is too large: ${megabytes(bytes)}.`, allowed, "use sitta predict, which has no such limit");
  }
  if (files.length > limits.files) {
    return refuse(`It has ${files.length} files.`, `at most ${limits.files}`, "use sitta predict");
  }
  return null;
}
