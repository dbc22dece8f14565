"use strict";
// Coordinates of boxes from their rows: a closed box has the size of its labels, an open one that of
// its children. Rows and their orders come with the data.

const SPACE = {x: 26, y: 36, lane: 14, pad: 16, head: 46};
const HEIGHT = {leaf: 42, box: 48};

const shortened = (text, most) =>
  text.length <= most ? text : "…" + text.slice(text.length - most + 1);

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();
function widthOf(text, style) {
  const key = style + text;
  if (!widths.has(key)) {
    pen.font = `${style} ${getComputedStyle(document.body).fontFamily}`;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

function closedSize([first, second], leaf) {
  const text = Math.max(widthOf(first, "600 13px"), widthOf(second, "400 11px"));
  return {w: Math.max(leaf ? 84 : 150, text + 26), h: leaf ? HEIGHT.leaf : HEIGHT.box};
}

// The centres nearest to the wanted ones that keep an order and distances: isotonic regression of
// the wanted centres without the distances, by pooling neighbours that violate it.
function spread(wanted, widths) {
  const offsets = [0];
  for (let i = 1; i < wanted.length; i++)
    offsets.push(offsets[i - 1] + (widths[i - 1] + widths[i]) / 2 + SPACE.x);
  const pools = [];
  for (let i = 0; i < wanted.length; i++) {
    let pool = {sum: wanted[i] - offsets[i], count: 1};
    while (pools.length && pools.at(-1).sum / pools.at(-1).count >= pool.sum / pool.count) {
      const before = pools.pop();
      pool = {sum: before.sum + pool.sum, count: before.count + pool.count};
    }
    pools.push(pool);
  }
  const centres = pools.flatMap((p) => Array(p.count).fill(p.sum / p.count));
  return centres.map((c, i) => c + offsets[i]);
}

// The inner layout of an open box: places of its children and lanes, relative to its corner.
function innerLayout(box, sizeOf) {
  const sizes = new Map(), near = new Map(), at = new Map();
  for (const key of box.rows.flat()) {
    sizes.set(key, key[0] === "l" ? {w: SPACE.lane, h: 0} : sizeOf(key));
    near.set(key, [[], []]);
  }
  for (const [source, target, lanes] of box.edges) {
    const way = [source, ...lanes, target];
    for (let i = 1; i < way.length && (lanes.length || !farApart(box, source, target)); i++) {
      near.get(way[i])[0].push(way[i - 1]);
      near.get(way[i - 1])[1].push(way[i]);
    }
  }
  for (const row of box.rows)
    spread(row.map(() => 0), row.map((k) => sizes.get(k).w)).forEach((x, i) => at.set(row[i], x));
  for (const [rows, side] of [[box.rows, 0], [[...box.rows].reverse(), 1], [box.rows, 0]])
    for (const row of rows) {
      const wanted = row.map((key) => {
        const ends = near.get(key)[side];
        return ends.length ? ends.reduce((sum, k) => sum + at.get(k), 0) / ends.length : at.get(key);
      });
      spread(wanted, row.map((k) => sizes.get(k).w)).forEach((x, i) => at.set(row[i], x));
    }
  return placed(box, sizes, at);
}

function placed(box, sizes, at) {
  let left = Infinity, right = -Infinity;
  for (const [key, x] of at) {
    left = Math.min(left, x - sizes.get(key).w / 2);
    right = Math.max(right, x + sizes.get(key).w / 2);
  }
  const places = new Map();
  let y = SPACE.head;
  for (const row of box.rows) {
    const height = Math.max(...row.map((k) => sizes.get(k).h));
    for (const key of row) {
      const {w, h} = sizes.get(key), lane = key[0] === "l";
      places.set(key, {
        x: at.get(key) - w / 2 - left + SPACE.pad, y: y + (lane ? 0 : (height - h) / 2),
        w, h: lane ? height : h,
      });
    }
    y += height + SPACE.y;
  }
  return {w: right - left + 2 * SPACE.pad, h: y - SPACE.y + SPACE.pad, places};
}

const rowNumbers = new WeakMap();
function farApart(box, source, target) {
  if (!rowNumbers.has(box))
    rowNumbers.set(box, new Map(box.rows.flatMap((row, i) => row.map((k) => [k, i]))));
  const numbers = rowNumbers.get(box);
  return numbers.get(target) - numbers.get(source) !== 1;
}

function edgePath(from, lanes, to) {
  let x = from.x + from.w / 2, y = from.y + from.h, path = `M${x} ${y}`;
  const curve = (x1, y1) => {
    const middle = (y + y1) / 2;
    path += `C${x} ${middle} ${x1} ${middle} ${x1} ${y1}`;
    [x, y] = [x1, y1];
  };
  for (const lane of lanes) {
    curve(lane.x + lane.w / 2, lane.y);
    path += `V${y = lane.y + lane.h}`;
  }
  curve(to.x + to.w / 2, to.y);
  return path;
}

// All visible boxes with absolute places, parents first, and the visible edges. The root box itself
// is not drawn.
function layoutOf(boxes, opened, labelsOf) {
  const inner = new Map(), shown = [], edges = [];
  const sizeOf = (key) => {
    if (!opened.has(key)) return closedSize(labelsOf(key), key[0] === "n");
    inner.set(key, innerLayout(boxes.get(key), sizeOf));
    const {w, h} = inner.get(key), title = closedSize(labelsOf(key), false);
    return {w: Math.max(w, title.w), h};
  };
  const place = (key, x, y, parent, depth) => {
    const {places, w} = inner.get(key), box = boxes.get(key);
    const shift = parent === null ? 0 : Math.max(0, (shown.at(-1).w - w) / 2);
    const moved = new Map([...places].map(([k, p]) => [k, {...p, x: p.x + x + shift, y: p.y + y}]));
    for (const [source, target, lanes] of box.edges)
      edges.push({
        key: `${source}>${target}`, source, target,
        far: !lanes.length && farApart(box, source, target),
        path: edgePath(moved.get(source), lanes.map((l) => moved.get(l)), moved.get(target)),
      });
    for (const row of box.rows)
      for (const child of row) {
        if (child[0] === "l") continue;
        shown.push({key: child, parent, depth, open: opened.has(child), ...moved.get(child)});
        if (opened.has(child)) place(child, moved.get(child).x, moved.get(child).y, child, depth + 1);
      }
  };
  const root = [...boxes.keys()].at(-1);
  const {w, h} = sizeOf(root);
  place(root, 0, 0, null, 1);
  return {w, h, shown, edges};
}
