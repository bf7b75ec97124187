// What the tests ask of a page, the way a person with a screen reader would: by role and name.
const squeeze = (text) => (text ?? "").replace(/\s+/g, " ").trim();

const isShown = (element) =>
  element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) &&
  element.getClientRects().length > 0;

const isHidden = (element) => element.closest("[aria-hidden=true]") !== null;

const textOf = (element) => {
  if (element.matches?.("[aria-hidden=true]")) return "";
  if (element.nodeType === Node.TEXT_NODE) return element.data;
  if (element.matches?.("img, area")) return element.alt;
  if (element.matches?.("svg")) return element.ariaLabel ?? element.querySelector("title")?.textContent ?? "";
  if (element.nodeType !== Node.ELEMENT_NODE) return "";
  return element.ariaLabel ?? [...element.childNodes].map(textOf).join(" ");
};

const textById = (ids) =>
  ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ");

const labelOf = (field) => {
  const by = field.getAttribute("aria-labelledby");
  if (by) return squeeze(textById(by));
  if (field.ariaLabel) return squeeze(field.ariaLabel);
  return squeeze([...(field.labels ?? [])].map(ownText).join(" ")) || squeeze(field.title);
};

// The words of a label, without those of a field within it.
const ownText = (label) => {
  const copy = label.cloneNode(true);
  copy.querySelectorAll("input, select, textarea, button").forEach((field) => field.remove());
  return copy.textContent;
};

const nameOf = (element) => {
  const by = element.getAttribute("aria-labelledby");
  if (by) return squeeze(textById(by));
  if (element.matches("input")) return squeeze(element.ariaLabel ?? element.value);
  return squeeze(textOf(element)) || squeeze(element.title);
};

const PRESSABLE = {
  link: "a[href], [role=link]",
  button: "button, input[type=submit], input[type=button], [role=button]",
  menu: "summary",
};
PRESSABLE.any = Object.values(PRESSABLE).join();
const FIELD = "input:not([type=hidden], [type=submit], [type=button]), select, textarea";

const find = (selector, name, nameFor) =>
  [...document.querySelectorAll(selector)].filter((e) => isShown(e) && nameFor(e) === name);
const findPressable = (role, name) => find(PRESSABLE[role], name, nameOf);
const findField = (label) => find(FIELD, label, labelOf);
const listNames = (role) =>
  [...document.querySelectorAll(PRESSABLE[role])].filter(isShown).map(nameOf);
const listLabels = () => [...document.querySelectorAll(FIELD)].filter(isShown).map(labelOf);

const overlap = (one, other) =>
  Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&
  Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1;

const hasOverlap = (row) => {
  const boxes = [...row.cells].map((cell) => cell.getBoundingClientRect());
  return boxes.some((box, i) => boxes.slice(i + 1).some((other) => overlap(box, other)));
};

const describe = (element) => squeeze(element.outerHTML).slice(0, 120);

// A colour as red, green, blue and alpha, from whatever form the browser gives it in.
const colours = new Map();
const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const readColour = (written) => {
  if (!colours.has(written)) {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = written;
    brush.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
    colours.set(written, [red, green, blue, alpha / 255]);
  }
  return colours.get(written);
};

const lay = (above, below) =>
  above.slice(0, 3).map((part, i) => part * above[3] + below[i] * (1 - above[3])).concat(1);

const behind = (element, known) => {
  if (!element) return [255, 255, 255, 1];
  if (!known.has(element)) {
    const own = readColour(getComputedStyle(element).backgroundColor);
    known.set(element, own[3] === 1 ? own : lay(own, behind(element.parentElement, known)));
  }
  return known.get(element);
};

const luminance = (colour) => {
  const [red, green, blue] = colour.slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};

const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};

// Whatever has words of its own that stand out less than WCAG's level AA wants. Words that cannot be used
// now (a disabled button) may be faint, and drawings have their figures in a table.
const findFaint = () => {
  const known = new Map();
  const hasWords = (e) => [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
  return [...document.body.querySelectorAll("*")].filter((element) => {
    if (!hasWords(element) || element.closest("svg, script, style, :disabled, .vh, [aria-hidden=true]")) return false;
    if (!isShown(element)) return false;
    const style = getComputedStyle(element);
    const paper = behind(element, known);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    return contrast(lay(readColour(style.color), paper), paper) < (isLarge ? 3 : 4.5);
  });
};

const scrolls = (element) => {
  const { overflowX, overflowY } = getComputedStyle(element);
  const may = (overflow) => overflow === "auto" || overflow === "scroll";
  return (
    (may(overflowX) && element.scrollWidth > element.clientWidth + 1) ||
    (may(overflowY) && element.scrollHeight > element.clientHeight + 1)
  );
};

const CHECKS = {
  "the page has no language": () => (document.documentElement.lang ? [] : [document.documentElement]),
  "the page has no title": () => (squeeze(document.title) ? [] : [document.documentElement]),
  "not one main landmark": () =>
    document.querySelectorAll("main, [role=main]").length === 1 ? [] : [document.body],
  "not one first heading": () => (document.querySelectorAll("h1").length === 1 ? [] : [document.body]),
  "a heading skips a level": () => {
    const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(isShown);
    const level = (heading) => Number(heading.localName[1]);
    return headings.filter((h, i) => i > 0 && level(h) > level(headings[i - 1]) + 1);
  },
  "a heading says nothing": () =>
    [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((h) => !squeeze(textOf(h))),
  "a field has no label": () =>
    [...document.querySelectorAll(FIELD)].filter((f) => isShown(f) && !labelOf(f)),
  "a button or link has no name": () =>
    [...document.querySelectorAll(PRESSABLE.any)].filter((e) => isShown(e) && !isHidden(e) && !nameOf(e)),
  // Drawings have a stop of the Tab key for each step at most; what they lead to is in a table too.
  "a button or link is not reached by Tab": () =>
    [...document.querySelectorAll(PRESSABLE.any)].filter(
      (e) => isShown(e) && !isHidden(e) && e.tabIndex < 0 && !e.closest("svg"),
    ),
  "a part that scrolls is not reached by Tab": () =>
    [...document.body.querySelectorAll("*")].filter(
      (e) => isShown(e) && scrolls(e) && e.tabIndex < 0 && !e.querySelector(`${PRESSABLE.any}, ${FIELD}`),
    ),
  "words do not stand out": findFaint,
  "a picture has no alternative": () => [
    ...[...document.querySelectorAll("img")].filter((i) => i.getAttribute("alt") === null),
    ...[...document.querySelectorAll("svg")].filter(
      (s) => isShown(s) && !isHidden(s) && !s.ariaLabel && !s.querySelector("title") && !s.hasAttribute("aria-labelledby"),
    ),
  ],
  "an id is there twice": () => {
    const seen = new Set();
    return [...document.querySelectorAll("[id]")].filter((e) => seen.has(e.id) || !seen.add(e.id));
  },
  "a table has no column headings": () =>
    [...document.querySelectorAll("table")].filter((t) => isShown(t) && !t.querySelector("th")),
  "the cells of a row overlap": () =>
    [...document.querySelectorAll("tbody tr")].filter((row) => isShown(row) && hasOverlap(row)),
  "a reference leads nowhere": () =>
    [...document.querySelectorAll("[aria-labelledby], [aria-describedby], [aria-controls], label[for]")].filter((e) =>
      ["aria-labelledby", "aria-describedby", "aria-controls", "for"]
        .flatMap((name) => (e.getAttribute(name) ?? "").split(/\s+/).filter(Boolean))
        .some((id) => !document.getElementById(id)),
    ),
  "the page scrolls sideways": () => {
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= room) return [];
    const wide = [...document.body.querySelectorAll("*")].filter(
      (e) => isShown(e) && e.getBoundingClientRect().right > room + 1,
    );
    return wide.length ? wide.slice(0, 3) : [document.body];
  },
};

const findFaults = () =>
  Object.entries(CHECKS).flatMap(([name, check]) => check().map((e) => `${name}: ${describe(e)}`));
