// Slots: each one's own picture and mask, and the scene without those that are switched off.

import { fetchScene, objectColour } from "./explanation.js";
import { grey, layerOf } from "./picture.js";
import { fromRgb } from "./regions.js";
import { byId, changed, element, levels, state } from "./store.js";

const panel = byId("slots");
let drawn = null;

function canvasOf(layer, words) {
  const canvas = element("canvas", { role: "img", "aria-label": words });
  [canvas.width, canvas.height] = [layer.width, layer.height];
  canvas.getContext("2d").drawImage(layer, 0, 0);
  return canvas;
}

function labelOfSlot(slot) {
  return state.found.arrays[`slot${levels()}`].values.indexOf(slot);
}

function card(slot) {
  const { pictures, decoder } = state.slots.arrays, [, height, width] = decoder.shape;
  const label = labelOfSlot(slot), colour = label > 0 ? objectColour(label) : null;
  const name = label === 0 ? "background" : label > 0 ? `object ${label}` : "no pixels";
  const on = element("input", { type: "checkbox", checked: !state.off.has(slot), id: `slot-${slot}` });
  on.addEventListener("change", () => toggle(slot));
  const own = fromRgb({ values: pictures.values, shape: [height, width, 3] }, 3 * slot * height * width);
  const made = element("div", { class: "slot" },
    element("label", {}, on, element("span", {}, `Slot ${slot + 1}`), element("small", { class: "hint" }, name)),
    element("div", { class: "pair" },
      element("figure", {}, canvasOf(own, `Picture of slot ${slot + 1}`), element("figcaption", {}, "picture")),
      element("figure", {}, canvasOf(layerOf(decoder, slot, grey), `Mask of slot ${slot + 1}`), element("figcaption", {}, "mask"))));
  if (colour) made.style.borderColor = `rgb(${colour})`;
  return made;
}

export function toggle(slot) {
  if (state.off.has(slot)) state.off.delete(slot); else state.off.add(slot);
  changed();
  fetchScene();
}

export function draw() {
  if (state.tab !== "slots") return;
  const key = [state.slots, state.found, state.problems.slots];
  if (!drawn || key.some((part, index) => part !== drawn[index])) { drawn = key; build(); }
  if (!state.slots) return;
  for (let slot = 0; slot < state.slots.slots; slot++) {
    const box = byId(`slot-${slot}`);
    box.checked = !state.off.has(slot);
    box.closest(".slot").classList.toggle("off", state.off.has(slot));
  }
  byId("want-scene").checked = state.wantScene;
}

function build() {
  const parts = [];
  if (state.problems.slots) parts.push(element("p", { class: "problem", role: "alert" }, state.problems.slots));
  if (!state.found) parts.push(element("p", { class: "hint" }, "Choose an image first."));
  else if (!state.slots) parts.push(element("p", { class: "hint" }, state.problems.slots ? "" : "The decoder paints…"));
  else {
    const scene = element("input", { type: "checkbox", id: "want-scene", checked: state.wantScene });
    scene.addEventListener("change", () => { state.wantScene = scene.checked; fetchScene(); });
    const words = state.about.tokens
      ? "Each slot’s picture is what the decoder tells of that slot alone. Switch one off to see the scene without it."
      : "Each slot’s own picture, and where it counts. Switch one off to see the scene without that object.";
    parts.push(element("p", { class: "hint" }, words), element("label", { class: "choice" }, scene, "Show the scene as the decoder paints it"),
      element("div", { class: "slots" }, ...Array.from({ length: state.slots.slots }, (_, slot) => card(slot))));
  }
  panel.replaceChildren(...parts);
}
