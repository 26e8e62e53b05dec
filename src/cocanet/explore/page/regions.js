// Label maps: outlines along the edges of pixels, tints, and the object that holds most of each part.

export function outlines(map, width, height) {
  // Lines between pixels of different labels.
  const path = new Path2D();
  for (let y = 1; y < height; y++) {
    for (let x = 0; x < width;) {
      if (map[y * width + x] === map[(y - 1) * width + x]) { x++; continue; }
      const from = x;
      while (x < width && map[y * width + x] !== map[(y - 1) * width + x]) x++;
      path.moveTo(from, y); path.lineTo(x, y);
    }
  }
  for (let x = 1; x < width; x++) {
    for (let y = 0; y < height;) {
      if (map[y * width + x] === map[y * width + x - 1]) { y++; continue; }
      const from = y;
      while (y < height && map[y * width + x] !== map[y * width + x - 1]) y++;
      path.moveTo(x, from); path.lineTo(x, y);
    }
  }
  return path;
}

export function outlineOf(map, width, height, label, box = null) {
  // The closed outline of one label, and its pixels as rectangles.
  const [left, top, right, bottom] = box ?? [0, 0, width, height];
  const edge = new Path2D(), inside = new Path2D();
  const is = (x, y) => x >= 0 && y >= 0 && x < width && y < height && map[y * width + x] === label;
  for (let y = top; y <= bottom; y++) {
    for (let x = left; x < right;) {
      if (is(x, y) === is(x, y - 1)) { x++; continue; }
      const from = x;
      while (x < right && is(x, y) !== is(x, y - 1)) x++;
      edge.moveTo(from, y); edge.lineTo(x, y);
    }
    for (let x = left; x < right && y < bottom;) {
      if (!is(x, y)) { x++; continue; }
      const from = x;
      while (x < right && is(x, y)) x++;
      inside.rect(from, y, x - from, 1);
    }
  }
  for (let x = left; x <= right; x++) {
    for (let y = top; y < bottom;) {
      if (is(x, y) === is(x - 1, y)) { y++; continue; }
      const from = y;
      while (y < bottom && is(x, y) !== is(x - 1, y)) y++;
      edge.moveTo(x, from); edge.lineTo(x, y);
    }
  }
  return { edge, inside };
}

export function poles(map, width, height, count) {
  // For each label the pixel that is furthest from all others (its pole of inaccessibility), and how far that is.
  // Of pixels that are nearly as far it is the one next to the label's centre. Distances are chamfer distances.
  const far = new Float32Array(width * height), most = new Float32Array(count), sums = new Float64Array(3 * count);
  const pass = (from, to, by, steps) => {
    for (let index = from; index !== to; index += by) {
      const x = index % width, y = (index - x) / width, label = map[index];
      let least = by > 0 ? Infinity : far[index];
      for (const [right, down, length] of steps) {
        const column = x + right, row = y + down, at = index + down * width + right;
        const inside = column >= 0 && row >= 0 && column < width && row < height && map[at] === label;
        least = Math.min(least, (inside ? far[at] : 0) + length);
      }
      far[index] = least;
    }
  };
  const steps = [[-1, 0, 1], [0, -1, 1], [-1, -1, Math.SQRT2], [1, -1, Math.SQRT2]];
  pass(0, far.length, 1, steps);
  pass(far.length - 1, -1, -1, steps.map(([right, down, length]) => [-right, -down, length]));
  for (let index = 0; index < far.length; index++) {
    const label = map[index], x = index % width;
    most[label] = Math.max(most[label], far[index]);
    sums[3 * label] += 1; sums[3 * label + 1] += x; sums[3 * label + 2] += (index - x) / width;
  }
  const found = new Array(count).fill(null);
  for (let index = 0; index < far.length; index++) {
    const label = map[index];
    if (far[index] < 0.9 * most[label]) continue;
    const x = index % width, y = (index - x) / width, area = sums[3 * label];
    const off = Math.hypot(x - sums[3 * label + 1] / area, y - sums[3 * label + 2] / area);
    if (!found[label] || off < found[label].off) found[label] = { x, y, off, reach: far[index] };
  }
  return found;
}

function onCanvas(width, height, write) {
  const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d");
  const data = context.createImageData(width, height);
  write(data.data);
  context.putImageData(data, 0, 0);
  return canvas;
}

export function canvasFrom(width, height, colourAt) {
  // A canvas whose pixels are [red, green, blue, alpha] of a function of their index.
  return onCanvas(width, height, (bytes) => {
    for (let index = 0; index < width * height; index++) bytes.set(colourAt(index), 4 * index);
  });
}

export function tinted(map, width, height, colours, alpha) {
  // A canvas with the colours of labels, some with an alpha of their own; a label without any stays clear.
  const table = new Uint32Array(colours.length), bytes = new Uint8Array(table.buffer);
  colours.forEach((colour, label) => { if (colour) bytes.set(colour.length === 4 ? colour : [...colour, alpha], 4 * label); });
  return onCanvas(width, height, (data) => {
    const pixels = new Uint32Array(data.buffer);
    for (let index = 0; index < pixels.length; index++) pixels[index] = table[map[index]];
  });
}

export function fromRgb({ values, shape }, offset = 0) {
  const [height, width] = shape.slice(-3);
  return onCanvas(width, height, (data) => {
    for (let from = offset, to = 0; to < data.length; from += 3, to += 4) {
      data[to] = values[from];
      data[to + 1] = values[from + 1];
      data[to + 2] = values[from + 2];
      data[to + 3] = 255;
    }
  });
}

export function owners(parts, objects, count) {
  // The object that holds most pixels of each part.
  const tally = new Map();
  for (let index = 0; index < parts.length; index++) {
    const key = parts[index] * 65536 + objects[index];
    tally.set(key, (tally.get(key) ?? 0) + 1);
  }
  const best = new Int32Array(count).fill(-1), most = new Int32Array(count);
  for (const [key, pixels] of tally) {
    const part = Math.floor(key / 65536);
    if (pixels > most[part]) { most[part] = pixels; best[part] = key % 65536; }
  }
  return best;
}

export function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

export function shade([red, green, blue], amount) {
  // Lighter above 0, darker below.
  const to = amount > 0 ? 255 : 0, by = Math.abs(amount);
  return [red, green, blue].map((value) => Math.round(value + (to - value) * by));
}
