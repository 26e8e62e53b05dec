// Numbers of segments, each at the place inside of its segment that is furthest from the border.

import { poles } from "./regions.js";

export function badgesOf(regions, segments, by) {
  // The numbers of segments, inside of each, on a canvas that is `by` times as large as the label map.
  regions.poles ??= poles(regions.map, regions.width, regions.height, regions.colours.length);
  return segments.filter(({ label, background }) => !background && regions.poles[label]).map(({ label, category, colour }) => {
    const { x, y, reach } = regions.poles[label];
    return { text: String(label), more: category, x: (x + 0.5) * by, y: (y + 0.5) * by, reach: reach * by, colour };
  });
}

export function drawNumbers(context, ratio, badges) {
  if (badges.length > 60) return;
  context.save();
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const { text: number, more = "", x: left, y: top, reach = Infinity, colour } of badges) {
    // Smaller in a small segment; the category only where it fits.
    const size = Math.max(0.55, Math.min(1, reach / (10 * ratio))) * ratio;
    context.font = `600 ${12 * size}px system-ui, sans-serif`;
    const whole = `${number} ${more}`, text = more && context.measureText(whole).width < 2.2 * reach ? whole : number;
    const wide = Math.max(18 * size, context.measureText(text).width + 10 * size), high = 18 * size;
    context.beginPath();
    context.roundRect(left - wide / 2, top - high / 2, wide, high, high / 2);
    context.fillStyle = "rgb(12 15 20 / 88%)";
    context.fill();
    context.lineWidth = 2 * ratio;
    context.strokeStyle = colour ? `rgb(${colour})` : "#fff";
    context.stroke();
    context.fillStyle = "#fff";
    context.fillText(text, left, top + size);
  }
  context.restore();
}
