// The state of the page. Code that changes it calls `changed`, and everything is drawn once before the next frame.

export const state = {
  models: [], model: null, about: null, colours: null, folder: "",
  images: [], title: "", key: null, name: "",
  explanation: null,      // the prediction for the image on every level, see explanation.js
  tinted: false,
  level: null,            // 0 pixels, 1 … parts, the last objects
  settings: {},           // settings that differ from the model's own
  initial: {},            // the settings that the command chose
  seconds: null,          // time of the last prediction
  tab: "why",
  hover: null,            // {x, y} in the image's pixels
  chosen: null,           // {level, label}: the segment that the tab "Why" explains
  steps: null,            // scopes, affinities and clusters of a level
  play: null,             // {step, running}
  compactness: null, compactnessOf: null,
  slots: null, off: new Set(), scene: null, showScene: false,
  labels: null,           // the labels of the image; revision 0 for none
  selected: new Set(),    // ids of segments of the labels
  tool: "select",         // see tools.js
  brush: 0.02,            // the brush's radius in units of the image's longer side
  follow: true,           // whether a box stands for the object in it
  drawn: null,            // {tool, points, …} while something is drawn
  pending: [],            // what was drawn and is not saved yet
  categories: [],
  problems: {},           // error messages by place
  busy: 0,
};

const listeners = [];
let due = false;

export function onChange(listener) { listeners.push(listener); }

export function changed() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; for (const listener of listeners) listener(); });
}

// Errors are shown where they happen: "picture", "whatif", "slots", "labels" or "why".
export function problem(place, error) {
  state.problems[place] = error ? sentence(error.message ?? String(error)) : null;
  changed();
}

const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");

let running = 0;
export async function withSpinner(place, run) {
  // Run a request; the spinner shows after 200 ms, and an error shows at its place.
  const timer = setTimeout(() => { state.busy++; changed(); }, 200), { key } = state;
  running++;
  try {
    const value = await run();
    if (state.key === key) problem(place, null);
    return value;
  } catch (error) {
    // Of an image that is no longer shown nothing is said.
    if (error.name !== "AbortError" && state.key === key) problem(place, error);
    throw error;
  } finally {
    running--;
    clearTimeout(timer);
    if (running === 0) { state.busy = 0; changed(); }
  }
}

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else if (value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);
export const levels = () => state.explanation?.levels.length ?? state.about?.levels.length ?? 1;
export const percent = (share) => `${Math.round(100 * share)} %`;
export const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
