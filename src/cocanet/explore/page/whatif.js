// What if: other slots, temperature, threshold or feedback, segmented anew as the sliders move.

import { again, fetchLandscape } from "./explanation.js";
import { byId, changed, element, levels, plural, state } from "./store.js";

const panel = byId("whatif");
let built = null;

const KNOBS = [
  { id: "slots", name: "Slots", about: "objects, with the background, at most", min: 1, max: (about) => Math.max(12, about.slots + 4), step: 1, usual: (about) => about.slots },
  { id: "temperature", name: "Temperature", about: "of the last level; more for tighter objects", min: -3, max: () => 3, step: 0.1, usual: (about) => about.temperature, log: true },
  { id: "stop_below", name: "Dyna’s threshold", about: "no further slot once less of the scope is left", min: 0.005, max: () => 0.3, step: 0.005, usual: (about) => about.stop_below, dynamic: true },
  { id: "feedback", name: "Rounds of feedback", about: "in which slots and neighbours correct each pixel", min: 0, max: () => 16, step: 1, usual: (about) => about.feedback },
];

function build() {
  const about = state.about;
  built = state.model;
  const dynamic = element("input", { type: "checkbox", id: "dynamic", checked: about.dynamic });
  dynamic.addEventListener("change", () => set("dynamic", dynamic.checked === about.dynamic ? null : dynamic.checked));
  const knobs = KNOBS.map((knob) => {
    const input = element("input", { type: "range", id: `knob-${knob.id}`, min: String(knob.min), max: String(knob.max(about)), step: String(knob.step) });
    input.value = at(knob, knob.usual(about));
    input.addEventListener("input", () => {
      const value = valueOf(knob, input.value);
      set(knob.id, Math.abs(value - knob.usual(about)) < 1e-9 || input.value === at(knob, knob.usual(about)) ? null : value);
    });
    return element("div", { class: "knob" }, element("label", { for: input.id }, knob.name), element("output", { id: `out-${knob.id}`, for: input.id }), input, element("small", {}, knob.about));
  });
  const fields = element("fieldset", {}, element("legend", {}, "Segmented anew as they move"));
  fields.append(knobs[0], element("label", { class: "choice" }, dynamic, "Dyna: as many slots as it takes"), knobs[2], knobs[1], knobs[3],
    element("div", { class: "row" }, element("button", { type: "button", id: "reset", onclick: reset }, "As trained", element("kbd", {}, "r"))));
  const choices = element("fieldset", {}, element("legend", {}, "Compactness as a landscape"));
  const options = [["none", "off"], ...about.levels.map((_, index) => [`level${index + 1}`, index + 1 === about.levels.length ? `level ${index + 1}: candidates for objects` : `level ${index + 1}`]), ["objects", "of the objects’ masks"]];
  for (const [value, words] of options) {
    const radio = element("input", { type: "radio", name: "landscape", value, id: `landscape-${value}`, checked: value === "none" });
    radio.addEventListener("change", () => landscape(value === "none" ? null : value));
    choices.append(element("label", { class: "choice" }, radio, words));
  }
  const bar = element("canvas", { class: "bar", width: 256, height: 1, role: "img", "aria-label": "Colours from scattered to compact" });
  const context = bar.getContext("2d");
  state.colours.landscape.forEach((colour, index) => { context.fillStyle = `rgb(${colour})`; context.fillRect(index, 0, 1, 1); });
  choices.append(bar, element("div", { class: "scale", "aria-hidden": "true" }, element("span", {}, "0 scattered"), element("span", {}, "compact 1")));
  panel.replaceChildren(element("p", { class: "problem", role: "alert", id: "whatif-problem", hidden: true }), element("p", { id: "whatif-found", role: "status" }), fields, choices);
}

const at = (knob, value) => String(knob.log ? Math.round(Math.log2(value / knob.usual(state.about)) * 10) / 10 : value);
const valueOf = (knob, text) => (knob.log ? knob.usual(state.about) * 2 ** Number(text) : Number(text));

function set(name, value) {
  state.settings = { ...state.settings, [name]: value };
  const dynamic = state.settings.dynamic ?? state.about.dynamic;
  if (!dynamic) state.settings.stop_below = null;
  for (const [key, held] of Object.entries(state.settings)) if (held === null) delete state.settings[key];
  changed();
  again();
}

export function reset() {
  state.settings = {};
  built = null;
  changed();
  again();
}

export function landscape(of) {
  state.landscapeOf = of;
  if (of !== null && !state.landscape && state.found) fetchLandscape();
  changed();
}

export function cycleLandscape() {
  const order = [null, ...state.about.levels.map((_, index) => `level${index + 1}`), "objects"];
  landscape(order[(order.indexOf(state.landscapeOf) + 1) % order.length]);
}

export function draw() {
  if (!state.about || !state.colours) return;
  if (built !== state.model) build();
  if (state.tab !== "whatif") return;
  const { about, settings } = state, dynamic = settings.dynamic ?? about.dynamic;
  for (const knob of KNOBS) {
    const value = settings[knob.id] ?? knob.usual(about);
    byId(`out-${knob.id}`).textContent = knob.log ? value.toFixed(2) : knob.dynamic ? `${(100 * value).toFixed(1)} %` : String(value);
    byId(`knob-${knob.id}`).disabled = Boolean(knob.dynamic && !dynamic);
    if (document.activeElement?.id !== `knob-${knob.id}`) byId(`knob-${knob.id}`).value = at(knob, value);
  }
  byId("dynamic").checked = dynamic;
  byId(`landscape-${state.landscapeOf ?? "none"}`).checked = true;
  const problem = byId("whatif-problem");
  problem.hidden = !state.problems.whatif;
  problem.textContent = state.problems.whatif ?? "";
  const said = byId("whatif-found");
  if (!state.found) said.textContent = "Choose an image first.";
  else {
    const count = state.found.arrays[`slot${levels()}`].shape[0] - 1;
    said.textContent = `${plural(count, "object")} and a background${state.seconds !== null ? `, in ${Math.round(1000 * state.seconds)} ms` : ""}.`;
  }
}
