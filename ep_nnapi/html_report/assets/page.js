"use strict";
// The page: draws the boxes, opens and closes them, finds nodes, and tells about the selection.
// Names of a model are untrusted: they only become text nodes and attribute values.

const data = JSON.parse(document.getElementById("data").textContent);
const FOUND = 200, LISTED = 100, READABLE = 1500, SMALL = 60;

const boxes = new Map(data.boxes.map((box) => [box.key, box]));
const root = data.boxes.at(-1);
const parentOf = new Map();
for (const box of data.boxes)
  for (const key of box.rows.flat()) if (key[0] !== "l") parentOf.set(key, box.key);
const clusterBox = new Map(
  data.boxes.filter((b) => b.kind === "cluster").map((b) => [b.cluster, b.key]));
const producers = data.nodes.map(() => []);
data.nodes.forEach((node, i) => node.readers.forEach((reader) => producers[reader].push(i)));

const opened = new Set([root.key]);
let selected = null, drawn = null, visible = new Map();

const set = (made, attributes) => {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
};
const complete = (made, attributes, children) => {
  set(made, attributes);
  made.append(...children);
  return made;
};
const element = (name, attributes = {}, ...children) =>
  complete(document.createElement(name), attributes, children);
const shape = (name, attributes, ...children) =>
  complete(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const goTo = (key, text) => {
  const made = element("button", {type: "button", class: "link", "data-key": key}, text);
  made.addEventListener("click", () => reveal(key));
  return made;
};

// ---- texts

const nodeOf = (key) => (key[0] === "n" ? data.nodes[+key.slice(1)] : null);
const rejectionOf = (node) => (node.rejection < 0 ? null : data.report.rejections[node.rejection]);
const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
const time = (us) => (us >= 1000 ? `${(us / 1000).toPrecision(3)} ms` : `${us.toPrecision(3)} µs`);
const HUES = [210, 150, 272, 42, 188, 318, 92, 240, 24];
const hue = (cluster) => HUES[cluster % HUES.length];
const leavesOf = (key) => key[0] === "n" ? [+key.slice(1)]
  : boxes.get(key).rows.flat().filter((k) => k[0] !== "l").flatMap(leavesOf);

const cut = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");

const labels = new Map();
function labelsOf(key) {
  const state = opened.has(key) ? key + "+" : key;
  if (!labels.has(state)) labels.set(state, madeLabels(key));
  return labels.get(state);
}

function madeLabels(key) {
  const node = nodeOf(key);
  if (node) return [node.op, shortened(node.name, 26)];
  const box = boxes.get(key), sign = opened.has(key) ? "▾ " : "▸ ";
  const nodes = count(box.nodes, "node");
  if (box.kind === "cluster") {
    const about = data.clusters[box.cluster].operators;
    return [`${sign}Cluster ${box.cluster}`, cut(`${nodes}: ${about}`, 38)];
  }
  if (box.kind === "cpu") return [`${sign}CPU`, cut(`${nodes}: ${reasonsOf(key)}`, 38)];
  return [sign + shortened(box.title, 34), nodes];
}

function reasonsOf(key) {
  const counts = new Map();
  for (const i of leavesOf(key)) {
    const found = rejectionOf(data.nodes[i]);
    if (found) counts.set(found.reason, (counts.get(found.reason) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]).map(([r, n]) => `${n} ${r}`).join(", ");
}

function spoken(key) {
  const node = nodeOf(key);
  if (!node) return labelsOf(key).join(", ").replace(/[▸▾] /, "");
  const refused = rejectionOf(node);
  const where = node.cluster >= 0 ? `on NNAPI, cluster ${node.cluster}`
    : `on the CPU${refused ? `, ${refused.reason}` : ""}`;
  return `${node.op} ${node.name}, ${where}`;
}

// ---- drawing

const svg = document.getElementById("graph");
let size = null;  // of the drawing; asking the browser for it would lay out the whole page
new ResizeObserver(() => {  // its middle stays, as when a phone is turned
  const before = viewSize();
  size = null;
  zoom.moveBy(...viewSize().map((now, i) => (now - before[i]) / 2 / zoom.scale()));
}).observe(svg);
function viewSize() {
  if (size === null) {
    const {width, height} = svg.getBoundingClientRect();
    size = [width, height];
  }
  return size;
}
const zoom = panZoom(svg, document.getElementById("view"), viewSize);

function draw() {
  drawn = layoutOf(boxes, opened, labelsOf);
  visible = new Map(drawn.shown.map((item) => [item.key, item]));
  drawBoxes("areas", drawn.shown.filter((item) => item.open));
  drawBoxes("leaves", drawn.shown.filter((item) => !item.open));
  for (const [path, e] of joined("edges", drawn.edges, () => shape("path", {}))) {
    path.classList.toggle("far", e.far);
    if (path.getAttribute("d") !== e.path) path.setAttribute("d", e.path);
  }
  mark();
}

// The element of each item of a layer, in the order of the items: those of before are kept.
const layers = {areas: new Map(), leaves: new Map(), edges: new Map()};
function joined(layer, items, make) {
  const home = document.getElementById(layer), before = layers[layer];
  const found = items.map((item) => [before.get(item.key) ?? make(item), item]);
  layers[layer] = new Map(found.map(([made, item]) => [item.key, made]));
  for (const [key, old] of before) if (!layers[layer].has(key)) old.remove();
  let next = home.firstChild;
  for (const [made] of found)
    if (made === next) next = next.nextSibling;
    else home.insertBefore(made, next);
  return found;
}

function drawBoxes(layer, items) {
  for (const [group, item] of joined(layer, items, madeBox)) {
    const labels = labelsOf(item.key);
    const state = [item.x, item.y, item.w, item.h, item.open, ...labels].join("|");
    if (group.drawnState !== state) paint(group, item, labels);
    group.drawnState = state;
  }
}

function madeBox({key}) {
  const made = shape("g", {role: "treeitem", tabindex: -1, "data-key": key, id: `box-${key}`},
    shape("rect", {}), shape("text", {x: 13, y: 19}),
    shape("text", {x: 13, y: 34, class: "second"}), shape("title", {}));
  made.addEventListener("click", () => activate(key));
  return made;
}

function paint(group, {key, x, y, w, h, open, depth}, labels) {
  const node = nodeOf(key), box = boxes.get(key), cluster = (node ?? box).cluster;
  const kinds = {area: open, nnapi: cluster >= 0, rejected: node && rejectionOf(node),
    cpu: cluster < 0 && (node || box.kind === "cpu")};
  const shown = Object.keys(kinds).filter((kind) => kinds[kind]);
  set(group, {class: ["box", ...shown].join(" "), transform: `translate(${x},${y})`,
    "aria-level": depth, "aria-label": spoken(key)});
  if (!node) group.setAttribute("aria-expanded", open);
  if (cluster >= 0) group.style.setProperty("--hue", hue(cluster));
  const [rect, first, second, title] = group.children;
  set(rect, {width: w, height: h});
  [first.textContent, second.textContent] = labels;
  title.textContent = node ? node.name : box.title;
}

let marked = [];
function mark() {
  const focusable = selected !== null && visible.has(selected) ? selected : drawn.shown[0]?.key;
  for (const box of marked) {
    box.classList.remove("selected");
    box.setAttribute("aria-selected", "false");
    box.setAttribute("tabindex", "-1");
  }
  marked = [selected, focusable].map((key) => document.getElementById(`box-${key}`)).filter(Boolean);
  for (const box of marked) {
    const chosen = box.getAttribute("data-key") === selected;
    box.classList.toggle("selected", chosen);
    box.setAttribute("aria-selected", String(chosen));
    box.setAttribute("tabindex", "0");
  }
  for (const path of document.querySelectorAll("#edges .near")) path.classList.remove("near");
  for (const {key, source, target} of drawn.edges)
    if (source === selected || target === selected) {
      const path = layers.edges.get(key);
      path.classList.add("near");
      path.parentNode.append(path);
    }
}

function fit() {
  const [width, height] = viewSize();
  const scale = Math.min(1.15, width / (drawn.w + 40), Math.max(0.55, height / (drawn.h + 60)));
  const top = Math.max(10, (height - drawn.h * scale) / 2 - 12) - 26 * scale;
  zoom.moveTo((width - drawn.w * scale) / 2, top, scale);
}

function centre(key) {
  const [width, height] = viewSize(), {x, y, w, h, open} = visible.get(key);
  const scale = Math.max(0.8, zoom.scale());
  const middle = open && h * scale > height ? y + height / scale / 2 - 20 : y + h / 2;
  zoom.moveTo(width / 2 - (x + w / 2) * scale, height / 2 - middle * scale, scale);
}

// ---- opening, closing, selecting

function toggle(key) {
  const before = visible.get(key);
  if (!opened.delete(key)) opened.add(key);
  draw();
  const after = visible.get(key);
  const shift = (before.x + before.w / 2) - (after.x + after.w / 2);
  zoom.moveBy(shift, before.y - after.y);
}

function activate(key) {
  if (key[0] === "b") toggle(key);
  select(key);
  focusBox(key);
}

function focusBox(key) {
  document.getElementById(`box-${key}`)?.focus({preventScroll: true});
}

function select(key) {
  selected = key;
  mark();
  document.getElementById("details").replaceChildren(
    ...(key[0] === "n" ? aboutNode(+key.slice(1)) : aboutBox(boxes.get(key))));
}

function reveal(key) {
  for (let k = parentOf.get(key); k !== undefined; k = parentOf.get(k)) opened.add(k);
  draw();
  select(key);
  centre(key);
  focusBox(key);
  document.querySelector(".work").scrollIntoView({block: "nearest"});
}

function openAll() {
  const kinds = (key) => boxes.get(key).rows.flat().filter((k) => k[0] === "b");
  let layer = [root.key], total = root.rows.flat().length;
  while (layer.length) {
    const next = [];
    for (const key of layer.flatMap(kinds)) {
      total += boxes.get(key).rows.flat().length;
      if (total > READABLE) return;
      opened.add(key);
      next.push(key);
    }
    layer = next;
  }
}

function closeAll() {
  opened.clear();
  opened.add(root.key);
  const only = root.rows.flat();
  if (only.length === 1 && only[0][0] === "b") opened.add(only[0]);
}

// ---- details

function facts(rows) {
  const list = element("dl");
  for (const [name, value] of rows)
    if (value !== "" && value !== null) list.append(element("dt", {}, name), element("dd", {}, value));
  return list;
}

function links(title, ids) {
  if (!ids.length) return [];
  const list = element("ul");
  const extend = (from) => {
    for (const i of ids.slice(from, from + LISTED))
      list.append(element("li", {}, goTo(`n${i}`, `${data.nodes[i].op} ${data.nodes[i].name}`)));
    const left = ids.length - from - LISTED;
    if (left <= 0) return;
    const more = element("button", {type: "button"}, `Show more (${left})`);
    const last = element("li", {}, more);
    more.addEventListener("click", () => { last.remove(); extend(from + LISTED); });
    list.append(last);
  };
  extend(0);
  return title ? [element("h3", {}, title), list] : [list];
}

function aboutNode(i) {
  const node = data.nodes[i], refused = rejectionOf(node);
  const parts = [element("h2", {}, node.name), element("p", {class: "soft"}, node.op)];
  if (node.cluster >= 0) {
    const {device} = data.report.clusters[node.cluster];
    parts.push(element("p", {class: "decision"}, `NNAPI: cluster ${node.cluster} on ${device}`),
      element("p", {}, goTo(clusterBox.get(node.cluster), "Show the cluster")));
  } else {
    parts.push(element("p", {class: "decision cpu"}, refused ? `CPU: ${refused.reason}` : "CPU"));
    if (refused) parts.push(element("p", {class: "detail"}, refused.detail),
      element("p", {class: "soft"}, data.advice[refused.reason]));
  }
  for (const note of data.report.notes.filter((n) => n.node === node.name))
    parts.push(element("p", {class: "note"}, `Note: ${note.detail}`));
  parts.push(facts([["source", node.source], ["outputs", node.outputs.join("; ")],
    ["on the CPU", `about ${time(node.us[0])}`], ["on NNAPI", `about ${time(node.us[1])}`],
    ["measured", measuredTime(node)]]));
  parts.push(...links("Reads from", producers[i]), ...links("Read by", node.readers));
  return parts;
}

function measuredTime({measured}) {
  if (measured === null) return "";
  const [, ...others] = measured.nodes;
  return time(measured.us) + (others.length ? `, with ${others.join(", ")}` : "");
}

function aboutBox(box) {
  const [title] = labelsOf(box.key);
  const parts = [element("h2", {}, title.slice(2))];
  if (box.kind === "cluster") parts.push(...aboutCluster(box.cluster));
  else {
    const reasons = reasonsOf(box.key);
    if (reasons) parts.push(element("p", {class: "decision cpu"}, `CPU: ${reasons}`));
    if (box.cluster >= 0)
      parts.push(element("p", {}, goTo(clusterBox.get(box.cluster), `In cluster ${box.cluster}`)));
  }
  parts.push(...links(count(box.nodes, "node"), leavesOf(box.key).sort((a, b) => a - b)));
  return parts;
}

function aboutCluster(i) {
  const {device, inputs, outputs, boundary_bytes: bytes} = data.report.clusters[i];
  const {operators, cpu_us: cpu, nnapi_us: nnapi, measured_us: measured, listing} = data.clusters[i];
  const parts = [element("p", {class: "decision"}, `NNAPI, on ${device}`), facts([
    ["operators", operators], ["inputs", inputs.join(", ")], ["outputs", outputs.join(", ")],
    ["bytes in and out", bytes.toLocaleString("en")],
    ["on NNAPI", nnapi === null ? "" : `about ${time(nnapi)}`],
    ["on the CPU", cpu === null ? "" : `about ${time(cpu)}`],
    ["measured", measured === null ? "" : time(measured)],
  ])];
  if (listing) {
    const shown = element("details", {class: "listing"}, element("summary", {}, "NNAPI model"));
    shown.addEventListener("toggle", () => {
      if (shown.childElementCount === 1) shown.append(element("pre", {tabindex: "0"}, listing));
    });
    parts.push(shown);
  }
  return parts;
}

// ---- search

const search = document.getElementById("search"), results = document.getElementById("found");
const placeOf = (node) => node.cluster >= 0 ? `cluster ${node.cluster}`
  : `CPU ${rejectionOf(node)?.reason ?? ""}`;
const haystack = data.nodes.map((node) => {
  const texts = [node.name, node.op, placeOf(node), rejectionOf(node)?.detail ?? "", node.source];
  return texts.join(" ").toLowerCase();
});

function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.length
    ? data.nodes.map((_, i) => i).filter((i) => words.every((w) => haystack[i].includes(w))) : [];
  results.replaceChildren(...hits.slice(0, FOUND).map((i) => {
    const node = data.nodes[i];
    const made = element("button", {type: "button", "data-key": `n${i}`},
      `${node.op} ${node.name} `, element("small", {}, placeOf(node)));
    made.addEventListener("click", () => { results.hidden = true; reveal(`n${i}`); });
    return element("li", {}, made);
  }));
  if (words.length && hits.length !== Math.min(hits.length, FOUND))
    results.append(element("li", {class: "soft"}, `and ${hits.length - FOUND} more`));
  if (words.length && !hits.length) results.append(element("li", {class: "soft"}, "nothing found"));
  results.hidden = !words.length;
}

// ---- keyboard

const order = () => drawn.shown.map((item) => item.key);
const steps = {
  ArrowDown: (key, keys) => keys[Math.min(keys.indexOf(key) + 1, keys.length - 1)],
  ArrowUp: (key, keys) => keys[Math.max(keys.indexOf(key) - 1, 0)],
  Home: (key, keys) => keys[0],
  End: (key, keys) => keys.at(-1),
  ArrowRight: (key, keys) => {
    if (key[0] === "n") return key;
    if (opened.has(key)) return keys[keys.indexOf(key) + 1];
    toggle(key);
    return key;
  },
  ArrowLeft: (key) => {
    if (opened.has(key)) { toggle(key); return key; }
    const parent = parentOf.get(key);
    return parent === root.key ? key : parent;
  },
};

function onKey(event) {
  const key = event.target.getAttribute("data-key");
  if (event.key in steps) {
    const next = steps[event.key](key, order());
    select(next);
    if (!inView(next)) centre(next);
    focusBox(next);
  } else if (event.key === "Enter" || event.key === " ") activate(key);
  else return;
  event.preventDefault();
}

function inView(key) {
  const {left, right, top} = document.getElementById(`box-${key}`).getBoundingClientRect();
  const frame = svg.getBoundingClientRect();
  return left >= frame.left && right <= frame.right && top >= frame.top && top <= frame.bottom - 40;
}

document.getElementById("graph").addEventListener("keydown", onKey);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { results.hidden = true; return; }
  if (event.target.matches("input, textarea")) return;
  const action = {"/": () => search.focus(), "+": () => zoom.scaleBy(1.3),
    "-": () => zoom.scaleBy(1 / 1.3), 0: fit}[event.key];
  if (!action) return;
  action();
  event.preventDefault();
});
search.addEventListener("input", find);
search.addEventListener("focus", find);
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") results.querySelector("button")?.click();
  if (event.key === "ArrowDown") { results.querySelector("button")?.focus(); event.preventDefault(); }
});
results.addEventListener("keydown", (event) => {
  const item = event.target.closest("li");
  const next = {ArrowDown: item?.nextSibling, ArrowUp: item?.previousSibling}[event.key];
  if (next) { next.querySelector("button")?.focus(); event.preventDefault(); }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) results.hidden = true;
});

// ---- tables: rows lead to the drawing

document.querySelectorAll("#clusters tbody tr").forEach((row, i) => {
  if (clusterBox.has(i)) row.cells[0].replaceChildren(goTo(clusterBox.get(i), String(i)));
});
document.querySelectorAll(".reason").forEach((part) => {
  const ids = data.nodes.map((_, i) => i).filter(
    (i) => rejectionOf(data.nodes[i])?.reason === part.dataset.reason);
  const all = element("details", {}, element("summary", {}, `Show ${count(ids.length, "node")}`));
  all.addEventListener("toggle", () => {
    if (all.childElementCount === 1) all.append(...links("", ids));
  });
  part.append(all);
});

const press = (id, action) => document.getElementById(id).addEventListener("click", action);
press("zoom-in", () => zoom.scaleBy(1.3));
press("zoom-out", () => zoom.scaleBy(1 / 1.3));
press("fit", fit);
press("open-clusters", () => { openAll(); draw(); fit(); });
press("close-all", () => { closeAll(); draw(); fit(); });

// ---- pictures of the levels, drawn when they are scrolled to

const PICTURE = {largest: 0.7, smallest: 0.45, height: 560, width: 420};

function pictureOf(kind, {names, summary, opened: all, boxes: list, nodes}) {
  const own = new Map(list.map((box) => [box.key, box]));
  const itemOf = (key) => nodes[key] ?? own.get(key);
  const opened = new Set(all ? own.keys() : [list.at(-1).key]);
  const labelsOf = (key) => {
    const [first, second] = itemOf(key).labels;
    return [first, nodes[key] ? shortened(second, 26) : cut(second, 38)];
  };
  const {w, h, shown, edges} = layoutOf(own, opened, labelsOf);
  const fitting = Math.min(PICTURE.largest, PICTURE.height / h, PICTURE.width / w);
  const scale = Math.max(PICTURE.smallest, fitting);
  const ends = [...new Set([names[0], names.at(-1)])];
  const name = kind === "feature" ? ends.join(" to ") : names.join(", ");
  const drawing = shape("svg", {
    viewBox: `0 26 ${w} ${h - 26}`, width: w * scale, height: (h - 26) * scale, role: "img",
    "aria-label": `${kind} level ${name}: ${summary}`,
  });
  const drawn = (item) => {
    const {cluster, cpu} = itemOf(item.key), [first, second] = labelsOf(item.key);
    const kinds = ["box", cluster >= 0 ? "nnapi" : "", nodes[item.key] || cpu ? "cpu" : "",
      nodes[item.key] && cluster < 0 ? "rejected" : "", item.open ? "area" : ""];
    const place = `translate(${item.x},${item.y})`;
    const group = shape("g", {class: kinds.join(" "), transform: place},
      shape("rect", {width: item.w, height: item.h}),
      shape("text", {x: 13, y: 19}, first), shape("text", {x: 13, y: 34, class: "second"}, second));
    if (cluster >= 0) group.style.setProperty("--hue", hue(cluster));
    return group;
  };
  drawing.append(
    ...shown.filter((item) => item.open).map(drawn),
    ...edges.map((e) => shape("path", {class: e.far ? "edge far" : "edge", d: e.path})),
    ...shown.filter((item) => !item.open).map(drawn));
  const title = element("b", {}, kind === "feature" ? `Level ${name}` : name);
  return element("figure", {}, element("figcaption", {}, title, `: ${summary}`), drawing);
}

const scrolledTo = new IntersectionObserver((entries) => {
  for (const {isIntersecting, target} of entries) {
    if (!isIntersecting) continue;
    scrolledTo.unobserve(target);
    const {kind} = target.dataset;
    target.append(...data.pictures[kind].map((picture) => pictureOf(kind, picture)));
  }
}, {rootMargin: "400px"});
document.querySelectorAll(".pictures").forEach((place) => scrolledTo.observe(place));

closeAll();
if (data.nodes.length <= SMALL) openAll();
draw();
fit();
