// Keys of the list of calls: j and k go to the next row and back, Enter opens it, x ticks it, c compares the two that
// are ticked.
(() => {
  let here = null;
  const rows = () => [...document.querySelectorAll(".calls tr[data-key]")];
  const go = (row) => {
    if (!row) return;
    here?.classList.remove("here");
    here = row;
    row.classList.add("here");
    row.scrollIntoView({ block: "nearest" });
  };
  const keys = {
    j: () => { const all = rows(); go(all[all.indexOf(here) + 1]); },
    k: () => { const all = rows(); go(all[all.indexOf(here) - 1]); },
    x: () => here?.querySelector(".tick")?.click(),
    c: () => document.getElementById("compare-ticked")?.requestSubmit(),
    Enter: () => here?.querySelector(".act")?.click(),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not(.tick), textarea, select, a, button, summary")) return;
    keys[event.key]?.();
  });
})();
