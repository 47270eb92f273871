/** How to open image and mask in other programs: commands for downloaded files, and a link. Pure. */

import { saveAs } from "./words.js";

/** A word for a shell. @param {string} text */
const quoted = (text) => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A word for Python, inside double quotes of a shell: escaped once for each. @param {string} text */
const python = (text) => `'${text.replace(/[\\']/g, "\\$&").replace(/[\\"$`]/g, "\\$&")}'`;

/**
 * Commands that open the image and the mask once both are downloaded as NIfTI.
 * @param {string} name of the image
 * @returns {Array<{title: string, command: string}>}
 */
export function commands(name) {
  const [image, mask] = ["image.nii.gz", "mask.nii.gz"].map((kind) => saveAs(name, kind, 0, 1));
  const code = `slicer.util.loadVolume(${python(image)}); slicer.util.loadSegmentation(${python(mask)})`;
  return [
    { title: "ITK-SNAP", command: `itksnap -g ${quoted(image)} -s ${quoted(mask)}` },
    { title: "3D Slicer", command: `Slicer --python-code "${code}"` },
  ];
}

/**
 * A link that 3D Slicer opens by itself, where it is registered for such links and may ask the service.
 * @param {string} image address of the image
 * @param {string} mask address of the mask
 */
export function slicerLink(image, mask) {
  return `slicer://viewer/?image=${encodeURIComponent(image)}&segmentation=${encodeURIComponent(mask)}`;
}
