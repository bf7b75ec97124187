// Keys on the page of a session: j and k go from turn to turn, n to the next one that failed,
// b to the next one that broke the cache.
(() => {
  let turns = [...document.querySelectorAll(".turn")];
  document.addEventListener("live:inserted", () => (turns = [...document.querySelectorAll(".turn")]));
  const hint = document.querySelector(".keys");
  if (!turns.length) return;
  if (hint) hint.hidden = false;

  const here = () => turns.findIndex((turn) => turn.contains(document.activeElement));
  const focus = (turn) => {
    if (!turn) return;
    turn.querySelector("a").focus({ preventScroll: true });
    turn.scrollIntoView({ block: "nearest" });
  };
  const find = (place, mark) => turns.slice(place + 1).find((turn) => mark in turn.dataset);
  const steps = {
    j: (place) => turns[place + 1],
    k: (place) => turns[Math.max(place - 1, 0)],
    n: (place) => find(place, "failed"),
    b: (place) => find(place, "broken"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const step = steps[event.key];
    if (step) focus(step(here()));
  });
})();
