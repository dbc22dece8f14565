"use strict";
// Pan and zoom: drags move a drawing, the wheel and two fingers scale it about where they are.

const LEAST_SCALE = 0.02, MOST_SCALE = 4, CLICK = 4;  // a pointer that moves fewer pixels clicks

function panZoom(svg, view, viewSize) {
  const at = {x: 0, y: 0, k: 1}, pointers = new Map();
  let start = null, dragged = false;

  function moveTo(x, y, k) {
    Object.assign(at, {x, y, k});
    view.setAttribute("transform", `translate(${x},${y}) scale(${k})`);
  }

  function scaleAbout([x, y], factor) {
    const k = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, at.k * factor)), by = k / at.k;
    moveTo(x - (x - at.x) * by, y - (y - at.y) * by, k);
  }

  function placeOf(event) {
    const {left, top} = svg.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  // The middle of the pointers, and the distance of two.
  function gesture() {
    const [[x, y], [x1, y1] = [x, y]] = pointers.values();
    return {middle: [(x + x1) / 2, (y + y1) / 2], distance: Math.hypot(x1 - x, y1 - y)};
  }

  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const unit = [0.002, 0.05, 1][event.deltaMode] * (event.ctrlKey ? 10 : 1);  // ctrl: a touchpad's pinch
    scaleAbout(placeOf(event), 2 ** (-event.deltaY * unit));
  }, {passive: false});

  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.ctrlKey || pointers.size === 2) return;
    pointers.set(event.pointerId, placeOf(event));
    [start, dragged] = [gesture(), pointers.size === 2];
  });

  svg.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return;
    const before = gesture(), [x, y] = placeOf(event), [x0, y0] = start.middle;
    if (!dragged && Math.hypot(x - x0, y - y0) < CLICK) return;
    if (!dragged) svg.setPointerCapture(event.pointerId);
    dragged = true;
    pointers.set(event.pointerId, [x, y]);
    const after = gesture();
    moveTo(at.x + after.middle[0] - before.middle[0], at.y + after.middle[1] - before.middle[1], at.k);
    if (before.distance) scaleAbout(after.middle, after.distance / before.distance);
  });

  for (const end of ["pointerup", "pointercancel", "pointerleave"])
    svg.addEventListener(end, (event) => pointers.delete(event.pointerId));

  svg.addEventListener("click", (event) => {
    if (dragged) event.stopPropagation();
    dragged = false;
  }, {capture: true});

  return {
    moveTo,
    scale: () => at.k,
    scaleBy: (factor) => scaleAbout(viewSize().map((size) => size / 2), factor),
    moveBy: (dx, dy) => moveTo(at.x + dx * at.k, at.y + dy * at.k, at.k),  // in the drawing's units
  };
}
