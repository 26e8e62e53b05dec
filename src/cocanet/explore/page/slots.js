// Slots: image and mask of each, and the reconstruction without those that are switched off.

import { fetchScene, objectColour } from "./explanation.js";
import { grey, layerOf } from "./picture.js";
import { fromRgb } from "./regions.js";
import { byId, changed, element, levels, percent, state } from "./store.js";

const panel = byId("slots");
const LEAST_EXPLAINED = 0.5;
let drawn = null, shownAnyway = false;

function canvasOf(layer, words) {
  const canvas = element("canvas", { role: "img", "aria-label": words });
  [canvas.width, canvas.height] = [layer.width, layer.height];
  canvas.getContext("2d").drawImage(layer, 0, 0);
  return canvas;
}

function labelOfSlot(slot) {
  return state.explanation.arrays[`slot${levels()}`].values.indexOf(slot);
}

function card(slot) {
  const { images, decoder } = state.slots.arrays, [, height, width] = decoder.shape;
  const label = labelOfSlot(slot), colour = label > 0 ? objectColour(label) : null;
  const name = label === 0 ? "background" : label > 0 ? `object ${label}` : "no pixels";
  const on = element("input", { type: "checkbox", checked: !state.off.has(slot), id: `slot-${slot}` });
  on.addEventListener("change", () => toggle(slot));
  const own = fromRgb({ values: images.values, shape: [height, width, 3] }, 3 * slot * height * width);
  const made = element("div", { class: "slot" },
    element("label", {}, on, element("span", {}, `Slot ${slot + 1}`), element("small", { class: "hint" }, name)),
    element("div", { class: "pair" },
      element("figure", {}, canvasOf(own, `Image of slot ${slot + 1}`), element("figcaption", {}, "image")),
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
  const key = [state.slots, state.explanation, state.problems.slots];
  if (!drawn || key.some((part, index) => part !== drawn[index])) { drawn = key; build(); }
  if (!state.slots) return;
  if (byId("noise")) return;
  for (let slot = 0; slot < state.slots.slots; slot++) {
    const box = byId(`slot-${slot}`);
    box.checked = !state.off.has(slot);
    box.closest(".slot").classList.toggle("off", state.off.has(slot));
  }
  byId("show-scene").checked = state.showScene;
}

function build() {
  const parts = [];
  if (state.problems.slots) parts.push(element("p", { class: "problem", role: "alert" }, state.problems.slots));
  if (!state.explanation) parts.push(element("p", { class: "hint" }, "Choose an image first."));
  else if (!state.slots) parts.push(element("p", { class: "hint" }, state.problems.slots ? "" : "Decoding…"));
  else {
    const { explained } = state.slots;
    if (explained < LEAST_EXPLAINED && !shownAnyway) {
      parts.push(element("p", { class: "hint", id: "noise" },
        `This model’s decoder explains ${percent(Math.max(0, explained))} of the variance of this image’s colours. Its slot images are noise and are not shown. The segments come from the encoder.`),
      element("button", { type: "button", id: "show-noise", onclick: () => { shownAnyway = true; drawn = null; changed(); } }, "Show them anyway"));
      panel.replaceChildren(...parts);
      return;
    }
    const scene = element("input", { type: "checkbox", id: "show-scene", checked: state.showScene });
    scene.addEventListener("change", () => { state.showScene = scene.checked; fetchScene(); });
    const words = state.about.token_decoder
      ? "The token decoder generates each slot’s image from that slot alone. Switch a slot off to generate the scene without it."
      : "The decoder’s image and mask of each slot. Switch a slot off to reconstruct the scene without it.";
    parts.push(element("p", { class: "hint" }, words), element("label", { class: "choice" }, scene, "Show the reconstruction"),
      element("div", { class: "slots" }, ...Array.from({ length: state.slots.slots }, (_, slot) => card(slot))));
  }
  panel.replaceChildren(...parts);
}
