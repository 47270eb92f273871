/** Calls of the service. Every failure becomes one clear sentence, and what to do about it. */

/** @typedef {{message: string, allowed: string | null, fix: string | null, status: number}} Failure */

/** A failure that can be shown as it is. */
export class ApiError extends Error {
  /** @param {Failure} failure */
  constructor(failure) {
    super(failure.message);
    this.failure = failure;
  }
}

const MOST_TRIES = 60;
const GONE = {
  message: "The service does not answer.",
  allowed: null,
  fix: "check that sitta serve is still running, then try again",
  status: 0,
};

const FAULT = {
  message: "The page failed at this image, by a fault of its own.",
  allowed: null,
  fix: "try again; if it fails again, load the page anew",
  status: 0,
};

const LINES = "application/x-ndjson"; // an event a line, while the job goes on

const CUT = { ...GONE, message: "The answer of the service was cut short." };

/** What to say about an error; one that is not of the service is a mistake here, and stays visible. */
export function failureOf(error) {
  if (error instanceof ApiError) return error.failure;
  console.error(error);
  return FAULT;
}

/** @returns {Promise<Failure>} what a response with an error says */
async function said(response) {
  const rest = { allowed: null, fix: null, status: response.status };
  try {
    const { error } = await response.json();
    return { ...rest, message: error.message, allowed: error.allowed, fix: error.fix };
  } catch {
    return { ...rest, message: `The service answered with an error (${response.status}).` };
  }
}

/** One request; throws ApiError, or AbortError if the signal says so. */
async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(GONE);
  }
  if (response.ok || response.status === 429) return response;
  throw new ApiError(await said(response));
}

/**
 * What a response holds; the connection may break while it is read.
 * @param {Response} response
 * @param {"json" | "blob" | "arrayBuffer"} form
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function whole(response, form, signal) {
  try {
    return await response[form]();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(CUT);
  }
}

/** @returns {Promise<any>} */
export async function getJson(path) {
  const response = await ask(path);
  if (!response.ok) throw new ApiError(await said(response));
  return whole(response, "json");
}

/**
 * Send JSON, or bytes as they are.
 * @param {string} path
 * @param {string} method
 * @param {any} body
 * @param {"json" | "blob" | "arrayBuffer"} form of the answer
 */
export async function send(path, method, body, form = "json") {
  const raw = body instanceof Uint8Array;
  const type = raw ? "application/octet-stream" : "application/json";
  const content = raw ? body : JSON.stringify(body);
  const response = await ask(path, { method, body: content, headers: { "Content-Type": type } });
  if (!response.ok) throw new ApiError(await said(response));
  return response.status === 204 ? null : whole(response, form);
}

/** @returns {Promise<Blob>} a file of the service */
export async function getFile(path) {
  const response = await ask(path);
  if (!response.ok) throw new ApiError(await said(response));
  return whole(response, "blob");
}

/**
 * Raw values of one slice.
 * @param {string} id of the result
 * @param {string} kind such as mask, or mask&mask=unadapted
 * @param {number} slice
 * @returns {Promise<{values: Uint8Array | Uint16Array | Float32Array, width: number, height: number, depth: number}>}
 */
export async function getRaw(id, kind, slice) {
  const [name, ...more] = kind.split("&");
  const response = await ask(`api/results/${id}/${name}.raw?${[`slice=${slice}`, ...more].join("&")}`);
  const bytes = await whole(response, "arrayBuffer");
  const [width, height, depth] = ["X-Width", "X-Height", "X-Depth"].map((name) =>
    Number(response.headers.get(name) ?? 1),
  );
  const type = { uint16: Uint16Array, float32: Float32Array }[response.headers.get("X-Values") ?? "uint8"] ?? Uint8Array;
  const values = new type(bytes);
  return { values, width, height, depth };
}

/** Wait, unless it is called off. */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("called off", "AbortError"));
    });
  });
}

/** The browser does not send a file that is no longer what was added; that is no fault of the service. */
async function blamed(error, files) {
  if (!(error instanceof ApiError) || error.failure.status !== 0) return error;
  for (const file of files) {
    try {
      await file.slice(0, 1).arrayBuffer();
    } catch {
      const message = `${file.name} has changed on disk since it was added, or is gone.`;
      return new ApiError({ message, allowed: null, fix: "remove it here and add it again", status: 0 });
    }
  }
  return error;
}

/** Tell the events of a job as they come. @returns {Promise<any>} the answer that ends them */
async function followed(response, signal, seen) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (text + part.value).split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        const { event, answer, error, status, ...rest } = JSON.parse(line);
        if (event === "answer") return answer;
        if (event === "error") throw new ApiError({ allowed: null, fix: null, ...error, status });
        seen({ event, answer, ...rest });
      }
    }
  } catch (error) {
    if (signal.aborted || error instanceof ApiError) throw error;
  }
  throw new ApiError(CUT);
}

/**
 * Adapt to one image; a full queue is asked again when it says so.
 * @param {File[]} files one image, or the slices of a series
 * @param {import("./state.js").Recipe} recipe
 * @param {AbortSignal} signal
 * @param {(seconds: number) => void} waiting is told when the queue is full
 * @param {Record<string, string>} [more] fields: path, group, again
 * @param {((event: any) => void) | null} [seen] is told of the image at once, and of each slice
 * @returns {Promise<import("./state.js").Result>}
 */
export async function predict(files, recipe, signal, waiting, more = {}, seen = null) {
  const headers = seen ? { Accept: LINES } : {};
  const form = new FormData();
  for (const file of files) form.append("file", file, file.name);
  form.append("model", recipe.model);
  if (recipe.method) form.append("method", recipe.method);
  if (Object.keys(recipe.settings).length) form.append("settings", JSON.stringify(recipe.settings));
  for (const [name, value] of Object.entries(more)) if (value) form.append(name, value);
  if (recipe.invert) form.append("invert", "true");
  if (recipe.rotate) form.append("rotate", String(recipe.rotate));
  for (let attempt = 0; attempt < MOST_TRIES; attempt++) {
    const sent = ask("api/predict", { method: "POST", body: form, signal, headers });
    const response = await sent.catch(async (error) => Promise.reject(await blamed(error, files)));
    const isFollowed = seen && response.headers.get("Content-Type")?.startsWith(LINES);
    if (response.ok) return isFollowed ? followed(response, signal, seen) : whole(response, "json", signal);
    const seconds = Math.min(30, Math.max(0.2, Number(response.headers.get("Retry-After")) || 1));
    waiting(seconds);
    await pause(seconds, signal);
  }
  throw new ApiError({ ...GONE, message: "The service stays busy.", fix: "try again later" });
}

/** Let the service forget a result; it does so by itself later, so failing does not matter. */
export function forget(id) {
  fetch(`api/results/${id}`, { method: "DELETE" }).catch(() => undefined);
}
