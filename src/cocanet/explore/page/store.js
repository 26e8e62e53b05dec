// What the page knows; whoever changes it says so, and everything is drawn once before the next frame.

export const state = {
  models: [], model: null, about: null, colours: null, folder: "",
  images: [], title: "", key: null, name: "",
  found: null,            // the explanation of the image, see explanation.js
  tinted: true,
  level: null,            // 0 pixels, 1 … parts, the last objects
  settings: {},           // what differs from how the model was made
  seconds: null,
  tab: "why",
  hover: null,            // {x, y} in the image's pixels
  chosen: null,           // {level, label}: the segment that is explained
  choices: null,          // scopes, affinities and clusters of a level
  play: null,             // {step, running}
  landscape: null, landscapeOf: null,
  slots: null, off: new Set(), scene: null, wantScene: false,
  labels: null,           // the document of the image; revision 0 where there is none
  picked: new Set(),      // ids of things
  categories: [],
  problems: {},           // by place
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

let working = 0;
export async function working_on(place, run) {
  // A spinner shows only what takes more than 200 ms.
  const timer = setTimeout(() => { state.busy++; changed(); }, 200);
  let shown = false;
  working++;
  try {
    const value = await run();
    problem(place, null);
    return value;
  } catch (error) {
    if (error.name !== "AbortError") problem(place, error);
    throw error;
  } finally {
    working--;
    clearTimeout(timer);
    if (working === 0) { state.busy = 0; shown = true; }
    if (shown) changed();
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
export const levels = () => state.found?.levels.length ?? state.about?.levels.length ?? 1;
export const percent = (share) => `${Math.round(100 * share)} %`;
export const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
