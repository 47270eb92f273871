/** Just enough DICOM to tell which files are slices of one series. Nothing else is read. */

const HEAD = 64 * 1024;
const SERIES = [0x20, 0x00, 0x0e, 0x00]; // (0020,000E) SeriesInstanceUID, little endian

/** Whether bytes begin as a DICOM file. @param {Uint8Array} bytes */
export function isDicom(bytes) {
  return String.fromCharCode(...bytes.subarray(128, 132)) === "DICM";
}

/**
 * The number of the series; null if it is not found near the start.
 * @param {Uint8Array} bytes
 * @returns {string | null}
 */
export function seriesOf(bytes) {
  for (let i = 132; i + 8 < bytes.length; i += 2) {
    if (SERIES.some((value, k) => bytes[i + k] !== value)) continue;
    const named = bytes[i + 4] === 0x55 && bytes[i + 5] === 0x49; // "UI": the type is written out
    const at = i + (named ? 6 : 4);
    const length = bytes[at] | (bytes[at + 1] << 8);
    const start = i + 8;
    const text = String.fromCharCode(...bytes.subarray(start, start + Math.min(length, 64)));
    const uid = text.replace(/[\0 ]+$/, "");
    if (/^[0-9.]+$/.test(uid)) return uid;
  }
  return null;
}

/**
 * The series of a file; null if it is no DICOM, or does not say.
 * @param {File} file
 * @returns {Promise<string | null>}
 */
export async function series(file) {
  if (!/\.(dcm|dicom|ima)$/i.test(file.name) && /\.[A-Za-z][A-Za-z0-9]{1,4}$/.test(file.name)) return null;
  const bytes = new Uint8Array(await file.slice(0, HEAD).arrayBuffer());
  return isDicom(bytes) ? seriesOf(bytes) : null;
}
