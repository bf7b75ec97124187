// The page of a call: addresses of its older, single page lead to the tab that has the part, and the keys k and j
// to the turns before and after, u to the session.
(() => {
  const TABS = { bill: "cost", cost: "cost", timing: "cost", bodies: "raw", raw: "raw", repeat: "raw", details: "details", facts: "details" };
  const tab = TABS[location.hash.slice(1)];
  const page = /^\/calls\/[^/]+$/.exec(location.pathname)?.[0];
  if (tab && page) {
    location.replace(`${page}/${tab}${location.hash}`);
    return;
  }
  const PLACES = { k: ".actions [rel=prev]", j: ".actions [rel=next]", u: ".crumbs a + a" };
  for (const hint of document.querySelectorAll(".rail .keys")) hint.hidden = false;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (event.key in PLACES) document.querySelector(PLACES[event.key])?.click();
  });
})();
