// The page of a session: its map (a window over the turns in view, a line that reads out what is under the pointer,
// scrubbing), its keys, and turns that unfold where they stand. Without it bars and lines are links.
(() => {
  const map = document.getElementById("map");
  const story = document.querySelector(".story");
  const said = document.getElementById("said");
  if (!map || !story) return;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const visible = (row) => row.getClientRects().length > 0;
  const first = (row) => Number(row.dataset.turn);
  const last = (row) => Number(row.dataset.last || row.dataset.turn);
  const rows = () => all("[data-turn]:not(.prompt)", story).filter(visible);
  const bottom = () => map.getBoundingClientRect().bottom;
  const drawing = () => map.querySelector("svg[data-turns]");
  const scrollTo = (row, room) => scrollBy({ top: row.getBoundingClientRect().top - bottom() - room, behavior: "instant" });

  // -- the window -------------------------------------------------------------------------------
  const markPrompt = () => {
    const prompts = all(".prompt", story);
    const here = prompts.findLast((each) => each.getBoundingClientRect().top < bottom() + 80) ?? prompts[0];
    for (const link of all(".rail ol a")) {
      if (here && link.hash === `#${here.id}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const follow = () => {
    const top = bottom();
    const seen = rows().filter((row) => {
      const box = row.getBoundingClientRect();
      return box.bottom > top && box.top < innerHeight;
    });
    const svg = drawing(), pane = svg?.querySelector(".window");
    if (!pane || !seen.length) return;
    const from = Math.min(...seen.map(first)), to = Math.max(...seen.map(last)), turns = Number(svg.dataset.turns);
    pane.removeAttribute("visibility");
    pane.setAttribute("x", `${((from - Number(svg.dataset.first)) / turns) * 100}%`);
    pane.setAttribute("width", `${((to - from + 1) / turns) * 100}%`);
    markPrompt();
  };
  let isAsked = false;
  const followSoon = () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => { isAsked = false; follow(); });
  };
  addEventListener("scroll", followSoon, { passive: true });
  addEventListener("resize", followSoon);
  document.addEventListener("toggle", followSoon, true);
  document.addEventListener("live:changed", followSoon);
  follow();

  // -- reading out, and scrubbing ---------------------------------------------------------------
  const barAt = (event) => {
    const box = drawing().getBoundingClientRect(), bars = all("a[data-n]", map);
    const place = Math.floor(((event.clientX - box.left) / box.width) * bars.length);
    return bars[Math.min(Math.max(place, 0), bars.length - 1)];
  };
  const show = (number) => {
    const shown = rows();
    const row = shown.find((each) => first(each) <= number && last(each) >= number) ?? shown.findLast((each) => first(each) <= number);
    if (row) scrollTo(row, 40);
  };
  let isDown = false;
  const isJump = (event) => event.target.closest("a:not([data-n])");
  const isOnDrawing = (event) => drawing()?.contains(event.target);
  map.addEventListener("pointerdown", (event) => {
    if (!isOnDrawing(event) || event.button || isJump(event)) return;
    const bar = barAt(event);
    if (!bar.getAttribute("href").startsWith("#")) return;
    isDown = true;
    map.setPointerCapture(event.pointerId); // the map goes to the top of the window, away from the pointer
    show(Number(bar.dataset.n));
  });
  map.addEventListener("pointermove", (event) => {
    if (!isOnDrawing(event) && !isDown) return;
    const bar = barAt(event);
    map.querySelector("output").textContent = bar.querySelector("title").textContent;
    if (isDown) show(Number(bar.dataset.n));
  });
  map.addEventListener("dragstart", (event) => event.preventDefault()); // a bar is a link, which browsers drag away
  addEventListener("pointerup", () => (isDown = false));
  map.addEventListener("pointerleave", () => (map.querySelector("output").textContent = ""));
  map.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (isJump(event) && open(document.getElementById(link.hash.slice(1)))) event.preventDefault();
    else if (isOnDrawing(event) && link?.getAttribute("href").startsWith("#")) event.preventDefault();
  });

  // -- going to a row, in whatever is folded ----------------------------------------------------
  let current = null;
  const open = (row) => {
    if (!row) return false;
    for (let fold = row.parentElement.closest("details:not([open])"); fold; fold = fold.parentElement.closest("details:not([open])")) {
      if (!row.matches("summary") || row.parentElement !== fold) fold.open = true;
    }
    current?.classList.remove("here");
    current = row;
    row.classList.add("here");
    const target = row.matches("summary") ? row : row.querySelector("summary, a.open, a[href]");
    target?.focus({ preventScroll: true });
    scrollTo(row, 60);
    said.textContent = "";
    return true;
  };
  const find = (found, step) => {
    if (!current?.isConnected) {
      const place = (row) => row.getBoundingClientRect().top;
      return step > 0 ? found.find((row) => !visible(row) || place(row) >= bottom()) ?? found[0] : found.findLast((row) => place(row) < bottom());
    }
    return step > 0
      ? found.find((row) => current.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING)
      : found.findLast((row) => current.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_PRECEDING);
  };
  const LINES = ".line, .thread > summary";
  const keys = {
    j: () => [find(all(LINES, story).filter(visible), 1), "No further turn"],
    k: () => [find(all(LINES, story).filter(visible), -1), "No earlier turn"],
    p: () => around(".prompt", "There is one prompt"),
    n: () => around(".line.failed, .event.bad", "Nothing failed"),
    b: () => around(".event[id^=break]", "No cache break"),
  };
  const around = (selector, none) => { // after the last one comes the first
    const found = all(selector, story);
    return [find(found, 1) ?? found[0], none];
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (event.key === "o" && current) return unfold(current);
    if (!Object.hasOwn(keys, event.key)) return;
    const [row, none] = keys[event.key]();
    if (!open(row)) said.textContent = none;
  });
  story.addEventListener("focusin", (event) => {
    const row = event.target.closest(`${LINES}, .event`);
    if (row && row !== current) {
      current?.classList.remove("here");
      current = row;
    }
  });

  // -- a turn that unfolds ----------------------------------------------------------------------
  const unfold = (row) => {
    if (row.matches("summary")) row.parentElement.open = !row.parentElement.open;
    else if (row.dataset.call) toggle(row);
  };
  const toggle = async (row) => {
    const next = row.nextElementSibling;
    if (next?.matches(".turn-body")) {
      next.remove();
      row.classList.remove("unfolded");
      return;
    }
    const body = document.createElement("li");
    body.className = "turn-body";
    body.innerHTML = '<p class="soft">Loading …</p>';
    row.after(body);
    row.classList.add("unfolded");
    try {
      const parts = row.dataset.parts ? `?parts=${row.dataset.parts}` : "";
      const answer = await fetch(story.dataset.turns + row.dataset.call + parts, { headers: { accept: "text/html" } });
      if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      body.replaceChildren(...document.importNode(page.body, true).childNodes);
    } catch {
      body.firstChild.textContent = "This could not be loaded. Open the call, or try again.";
    }
    followSoon();
  };
  story.addEventListener("click", (event) => {
    const row = event.target.closest("a") ? null : event.target.closest(".line[data-call]"); // the key o does the same
    if (row) toggle(row);
  });
  story.classList.add("unfolds");

  const unfoldAll = document.querySelector("[data-unfold]");
  unfoldAll.hidden = !story.querySelector("details");
  unfoldAll.addEventListener("click", () => {
    const isOpen = unfoldAll.textContent === "Unfold all";
    for (const each of all("details", story)) each.open = isOpen;
    unfoldAll.textContent = isOpen ? "Fold all" : "Unfold all";
  });
  for (const hint of all(".rail .keys")) hint.hidden = false;
  const goTo = () => open(document.getElementById(location.hash.slice(1))?.closest(".line, .event, .thread"));
  addEventListener("hashchange", goTo);
  if (location.hash) goTo();
})();
