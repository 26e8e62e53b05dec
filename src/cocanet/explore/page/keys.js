// A key for everything.

import { step } from "./gallery.js";
import * as labels from "./labels.js";
import { openTab, setLevel, showKeys, turnTheme } from "./main.js";
import { byId, changed, state } from "./store.js";
import { toggle } from "./slots.js";
import { cycleLandscape, reset } from "./whatif.js";
import { play, stepBy, stop } from "./why.js";

export const KEYS = [
  [["n", "p"], "next image, the one before"],
  [["[", "]"], "a level down, up: pixels, parts, objects"],
  [["w", "f", "o", "l"], "why, what if, slots, labels"],
  [["space"], "play how the segments were chosen, or pause"],
  [[",", "."], "a step back, forward"],
  [["v"], "tints on or off"],
  [["g"], "compactness as a landscape: each level, objects, off"],
  [["1", "…", "9"], "in slots: switch a slot off or on"],
  [["r"], "all settings as trained"],
  [["arrows", "enter"], "on the picture: move, select; on the gallery: move"],
  [["j", "i"], "in labels: select the next segment, the one before; with Shift add it"],
  [["m", "x", "b"], "merge, delete, set as background"],
  [["s", "a"], "split along the level below; take connected parts apart"],
  [["c"], "name a category; Enter saves it"],
  [["k"], "keep the segments as found"],
  [["z", "y"], "undo, redo (also with Ctrl)"],
  [["e"], "export as COCO"],
  [["t"], "light or dark"],
  [["esc"], "stop, and select nothing"],
  [["?"], "these keys"],
];

const TYPING = ["INPUT", "SELECT", "TEXTAREA"];

function nothing() {
  stop();
  Object.assign(state, { picked: new Set(), chosen: null, hover: null });
  changed();
}

const ANYWHERE = {
  n: () => step(1), p: () => step(-1), "[": () => setLevel(state.level - 1), "]": () => setLevel(state.level + 1),
  w: () => openTab("why"), f: () => openTab("whatif"), o: () => openTab("slots"), l: () => openTab("labels"),
  " ": () => { if (state.tab !== "why") openTab("why"); play(); }, ",": () => stepBy(-1), ".": () => stepBy(1),
  g: cycleLandscape, v: () => { state.tinted = !state.tinted; changed(); }, r: reset, t: turnTheme, "?": showKeys, Escape: nothing,
};

const LABELS = {
  j: (event) => labels.pickNext(1, event.shiftKey), i: (event) => labels.pickNext(-1, event.shiftKey),
  m: () => labels.act("merge"), x: () => labels.act("delete"), Delete: () => labels.act("delete"), Backspace: () => labels.act("delete"),
  b: () => labels.act("background"), s: () => labels.act("split"), a: () => labels.act("apart"), k: () => labels.act("keep"),
  z: (event) => labels.act(event.shiftKey ? "redo" : "undo"), y: () => labels.act("redo"), c: labels.naming, e: () => labels.exportAs("coco"),
};

export function press(event) {
  if (byId("keys").open || event.altKey) return;
  const typing = TYPING.includes(event.target.tagName) && event.target.type !== "checkbox" && event.target.type !== "radio";
  if (event.key === "Escape" && typing) { event.target.blur(); return; }
  if (typing && (event.target.type !== "range" || event.key.startsWith("Arrow"))) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.ctrlKey || event.metaKey) {
    if (state.tab === "labels" && (key === "z" || key === "y")) { event.preventDefault(); LABELS[key](event); }
    return;
  }
  if (key === " " && event.target.tagName === "BUTTON") return;
  if (state.tab === "slots" && /^[1-9]$/.test(key) && Number(key) <= (state.slots?.slots ?? 0)) { toggle(Number(key) - 1); return; }
  const run = (state.tab === "labels" && LABELS[key]) || ANYWHERE[key];
  if (!run) return;
  event.preventDefault();
  run(event);
}
