// What if: other slots, temperature or scope threshold, and refinement; the image is predicted again at every change.

import { again, fetchCompactness } from "./explanation.js";
import { byId, changed, element, levels, plural, state } from "./store.js";

const panel = byId("whatif");
let built = null;

const KNOBS = [
  { id: "slots", name: "Slots", about: "the most objects, with the background", min: 1, max: (about) => Math.max(12, about.slots + 4), step: 1, usual: (about) => about.slots },
  { id: "scope_threshold", name: "Scope threshold", about: "Dyna adds no slot once less of the scope remains", min: 0.005, max: () => 0.3, step: 0.005, usual: (about) => about.scope_threshold, dynamic: true },
  { id: "temperature", name: "Temperature", about: "of the last level; higher for tighter objects", min: -3, max: () => 3, step: 0.1, usual: (about) => about.temperature, log: true },
];

function build() {
  built = state.model;
  const { about } = state;
  const dynamic = checkbox("dynamic", "Dyna: dynamic number of slots", (on) => set("dynamic", on === about.dynamic ? null : on));
  const refine = checkbox("refine", "Refine masks after the network", (on) => set("refine", on || null));
  const [slots, threshold, temperature] = KNOBS.map(slider);
  const fields = element("fieldset", {}, element("legend", {}, "Settings"), slots, dynamic, threshold, temperature, refine,
    element("small", { class: "hint" }, "Refinement corrects masks by colour and position. It is not part of the network."),
    element("div", { class: "row" }, element("button", { type: "button", id: "reset", onclick: reset }, "Reset", element("kbd", {}, "r"))));
  panel.replaceChildren(element("p", { class: "problem", role: "alert", id: "whatif-problem", hidden: true }),
    element("p", { id: "whatif-summary", role: "status" }), fields, maps());
}

function checkbox(id, words, change) {
  const input = element("input", { type: "checkbox", id });
  input.addEventListener("change", () => change(input.checked));
  return element("label", { class: "choice" }, input, words);
}

function slider(knob) {
  const { about } = state, usual = knob.usual(about);
  const input = element("input", { type: "range", id: `knob-${knob.id}`, min: String(knob.min), max: String(knob.max(about)), step: String(knob.step) });
  input.value = position(knob, usual);
  input.addEventListener("input", () => {
    const value = valueOf(knob, input.value);
    set(knob.id, Math.abs(value - usual) < 1e-9 || input.value === position(knob, usual) ? null : value);
  });
  return element("div", { class: "knob" }, element("label", { for: input.id }, knob.name), element("output", { id: `out-${knob.id}`, for: input.id }), input, element("small", {}, knob.about));
}

function maps() {
  // Which compactness map lies over the image, with its colours.
  const { about } = state, last = about.levels.length;
  const box = element("fieldset", {}, element("legend", {}, "Compactness map"));
  const options = [["none", "off"], ...about.levels.map((_, index) => [`level${index + 1}`, index + 1 === last ? `level ${last}: anchors of objects` : `level ${index + 1}`]), ["objects", "objects’ masks"]];
  for (const [value, words] of options) {
    const radio = element("input", { type: "radio", name: "compactness", value, id: `compactness-${value}`, checked: value === "none" });
    radio.addEventListener("change", () => showCompactness(value === "none" ? null : value));
    box.append(element("label", { class: "choice" }, radio, words));
  }
  const bar = element("canvas", { class: "bar", width: 256, height: 1, role: "img", "aria-label": "Colours from scattered to compact" });
  const context = bar.getContext("2d");
  state.colours.compactness.forEach((colour, index) => { context.fillStyle = `rgb(${colour})`; context.fillRect(index, 0, 1, 1); });
  box.append(bar, element("div", { class: "scale", "aria-hidden": "true" }, element("span", {}, "0 scattered"), element("span", {}, "compact 1")));
  return box;
}

// A logarithmic slider is at 0 for the model's own value, and at 1 for twice as much.
const position = (knob, value) => String(knob.log ? Math.round(Math.log2(value / knob.usual(state.about)) * 10) / 10 : value);
const valueOf = (knob, text) => (knob.log ? knob.usual(state.about) * 2 ** Number(text) : Number(text));

function set(name, value) {
  state.settings = { ...state.settings, [name]: value };
  if (!(state.settings.dynamic ?? state.about.dynamic)) state.settings.scope_threshold = null;
  for (const [key, held] of Object.entries(state.settings)) if (held === null) delete state.settings[key];
  changed();
  again();
}

export function reset() {
  state.settings = { ...state.initial };
  built = null;
  changed();
  again();
}

function showCompactness(of) {
  state.compactnessOf = of;
  if (of !== null && !state.compactness && state.explanation) fetchCompactness();
  changed();
}

export function cycleCompactness() {
  const order = [null, ...state.about.levels.map((_, index) => `level${index + 1}`), "objects"];
  showCompactness(order[(order.indexOf(state.compactnessOf) + 1) % order.length]);
}

export function draw() {
  if (!state.about || !state.colours) return;
  if (built !== state.model) build();
  if (state.tab !== "whatif") return;
  const { about, settings } = state, dynamic = settings.dynamic ?? about.dynamic;
  for (const knob of KNOBS) {
    const value = settings[knob.id] ?? knob.usual(about), input = byId(`knob-${knob.id}`);
    byId(`out-${knob.id}`).textContent = knob.log ? value.toFixed(2) : knob.dynamic ? `${(100 * value).toFixed(1)} %` : String(value);
    input.disabled = Boolean(knob.dynamic && !dynamic);
    if (document.activeElement !== input) input.value = position(knob, value);
  }
  byId("dynamic").checked = dynamic;
  byId("refine").checked = Boolean(settings.refine);
  byId(`compactness-${state.compactnessOf ?? "none"}`).checked = true;
  const problem = byId("whatif-problem");
  problem.hidden = !state.problems.whatif;
  problem.textContent = state.problems.whatif ?? "";
  byId("whatif-summary").textContent = summary();
}

function summary() {
  if (!state.explanation) return "Choose an image first.";
  const count = state.explanation.arrays[`slot${levels()}`].shape[0] - 1;
  const time = state.seconds === null ? "" : `, in ${Math.round(1000 * state.seconds)} ms`;
  return `${plural(count, "object")} and a background${state.explanation.refined ? ", refined" : ""}${time}.`;
}
