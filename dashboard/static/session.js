// Keys on the page of a session: j and k go from turn to turn, n to the next one with a failure (of the call
// or of a tool), b to the next one that broke the cache. Where there is no such turn, a line says so.
(() => {
  let turns = [...document.querySelectorAll(".turn")];
  document.addEventListener("live:inserted", () => (turns = [...document.querySelectorAll(".turn")]));
  const hint = document.querySelector(".keys");
  const status = document.querySelector(".no-further");
  if (!turns.length) return;
  if (hint) hint.hidden = false;

  const here = () => turns.findIndex((turn) => turn.contains(document.activeElement));
  const focus = (turn) => {
    turn.querySelector("a").focus({ preventScroll: true });
    turn.scrollIntoView({ block: "nearest" });
  };
  const find = (place, mark) => turns.slice(place + 1).find((turn) => mark in turn.dataset);
  const steps = {
    j: { find: (place) => turns[place + 1], none: "No further turn" },
    k: { find: (place) => turns[place < 0 ? 0 : place - 1], none: "No earlier turn" },
    n: { find: (place) => find(place, "failed"), none: "No further failed turn" },
    b: { find: (place) => find(place, "broken"), none: "No further cache break" },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    status.textContent = "";
    const step = steps[event.key];
    if (!step) return;
    const turn = step.find(here());
    if (turn) focus(turn);
    else status.textContent = step.none;
  });
  document.addEventListener("pointerdown", () => (status.textContent = ""));
})();
