// Pages that follow new calls. The server says that something is new (server-sent events); the page is then
// fetched again, and what is new in it goes into the page that is open.
//
//   <div id="live" data-session="…" data-flights="list" data-noun="call">   what to follow; all but the id may lack.
//                                            data-flights: calls in flight, as a list here or (="page") by the page itself
//   [data-live-list]                         a list, newest first: its rows are told apart by data-key, or their id
//   [data-live-part]                         what is replaced as a whole, such as figures
//   [data-flying]                            what the page itself shows of calls in flight
//   [data-live-tree]                         a list whose rows may hold lists (in <details> or not): each row has a data-key,
//                                            new ones go where they belong, and what is open stays open
//   data-reload with the id                  the page is another one as soon as there is a call
//
// Nothing moves under the reader: rows go in by themselves only where the list begins in view; else a bar says
// how many there are. While the page is hidden nothing is followed.
(() => {
  const place = document.getElementById("live");
  const list = document.querySelector("[data-live-list]");
  if (!place || !window.EventSource) return;

  const KEY = "taximeter-follow";
  const MOST = 500; // rows of a list
  const SLOWER = 10; // fetching takes at most a tenth of the time
  const AGAIN_MS = 2000; // after a service that was too busy, or away
  const noun = place.dataset.noun || "call";
  let source = null;
  let after = Math.max(Number(place.dataset.after || 0), ...[...(list?.children ?? [])].map((row) => Number(/^(\d+)$/.exec(row.dataset.key || row.id)?.[1] ?? 0)));
  let fetched = null, isFetching = false, isStale = false, nextFetch = 0;

  // -- the switch, the bar, the calls in flight ------------------------------------------------
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const dot = document.querySelector(".top .live"); // the switch
  const state = make("span", { className: "state" });
  place.append(state);
  const bar = make("button", { type: "button", className: "button main live-bar", hidden: true });
  const status = make("div", { className: "live-status" }, bar);
  status.setAttribute("role", "status"); // polite
  const said = make("span", { className: "vh" });
  status.append(said);
  place.after(status);
  const flights = make("section", { className: "flights", hidden: true });
  flights.setAttribute("aria-label", "Calls in flight");
  const heading = make("p", { className: "soft" });
  const flying = make("ul");
  flights.append(heading, flying);
  status.after(flights);

  const plural = (count) => `${count} new ${noun}${count === 1 ? "" : "s"}`;

  // -- keeping the reader's place --------------------------------------------------------------
  // Runs a change, and scrolls by as much as what is at the top of the window has moved.
  const keepPlace = (change) => {
    const atTop = window.scrollY <= 0;
    // What is hidden has no place: its top would be 0, and somewhere else as soon as it is shown.
    const seen = atTop ? null : [...document.querySelectorAll("[data-key], main > *, main > section > *")]
      .find((each) => each.getClientRects().length && each.getBoundingClientRect().top >= 0 && !status.contains(each));
    const before = seen?.getBoundingClientRect().top;
    change();
    if (seen?.isConnected) window.scrollBy(0, seen.getBoundingClientRect().top - before);
  };

  const keyOf = (row) => row.dataset.key || row.id;
  const keysOf = (rows) => new Set([...rows].map(keyOf).filter(Boolean));

  const isAtEdge = () => {
    if (list.contains(document.activeElement) && document.activeElement !== list) return false;
    return list.getBoundingClientRect().top >= 0;
  };

  // -- what is new -----------------------------------------------------------------------------
  const findNew = (page) => {
    const theirs = page.querySelector("[data-live-list]");
    if (!list || !theirs) return [];
    const known = keysOf(list.children);
    return [...theirs.children].filter((row) => keyOf(row) && !known.has(keyOf(row)));
  };

  const startAnew = (page, theirs) => {
    list.replaceChildren(...document.importNode(theirs, true).children);
    const [ours, their] = [document, page].map((each) => each.querySelector("nav.pagination"));
    if (ours && their) ours.replaceWith(document.importNode(their, true));
  };

  const insert = (page) => {
    const rows = findNew(page).map((row) => document.importNode(row, true));
    const theirs = page.querySelector("[data-live-list]");
    for (const row of rows) {
      row.classList.add("is-new");
      if (row.dataset.of) list.querySelector(`[data-of="${CSS.escape(row.dataset.of)}"]`)?.remove();
    }
    if (rows.length < keysOf(theirs.children).size && list.children.length < MOST) list.prepend(...rows);
    else startAnew(page, theirs); // there would be a gap, or a page that grows for days
    for (const row of rows) row.querySelectorAll?.("time").forEach((time) => (time.title ||= time.dateTime));
    document.dispatchEvent(new CustomEvent("live:inserted"));
    return rows.length;
  };

  // What the server wrote: the titles of times are added here (time.js).
  const written = (part) => {
    const copy = part.cloneNode(true);
    for (const time of copy.querySelectorAll("time[title]")) time.removeAttribute("title");
    return copy.innerHTML;
  };
  const replaceParts = (page) => {
    for (const part of document.querySelectorAll("[data-live-part]")) {
      const theirs = page.querySelector(`[data-live-part="${CSS.escape(part.dataset.livePart)}"]`);
      if (!theirs || part.contains(document.activeElement) || written(part) === written(theirs)) continue;
      part.replaceChildren(...document.importNode(theirs, true).childNodes);
    }
  };

  // -- a tree of lists ---------------------------------------------------------------------------
  const listIn = (row) => row.querySelector(":scope > ol, :scope > details > ol");
  const headIn = (row) => row.querySelector(":scope > header, :scope > details > summary");
  // What a script has put behind a row has no key, and goes with it.
  const removeRow = (row) => {
    while (row.nextElementSibling && !keyOf(row.nextElementSibling)) row.nextElementSibling.remove();
    row.remove();
  };
  const updateRow = (row, theirs) => {
    const [own, their] = [row, theirs].map(listIn);
    if (own && their) {
      const [head, newer] = [row, theirs].map(headIn);
      if (head && newer) {
        if (head.textContent !== newer.textContent) head.replaceChildren(...document.importNode(newer, true).childNodes);
        Object.assign(head.dataset, newer.dataset);
      }
      return mergeTree(own, their);
    }
    if (row.textContent === theirs.textContent && row.id === theirs.id) return 0;
    row.before(document.importNode(theirs, true));
    removeRow(row);
    return 0;
  };
  // Makes a list like theirs, and returns how many rows are new.
  const mergeTree = (own, theirs) => {
    const known = new Map([...own.children].filter(keyOf).map((row) => [keyOf(row), row]));
    let added = 0, place = null;
    for (const their of theirs.children) {
      const row = known.get(keyOf(their));
      known.delete(keyOf(their));
      if (row) {
        added += updateRow(row, their);
        place = [...own.children].find((each) => keyOf(each) === keyOf(their));
        continue;
      }
      const fresh = document.importNode(their, true);
      fresh.classList.add("is-new");
      while (place?.nextElementSibling && !keyOf(place.nextElementSibling)) place = place.nextElementSibling;
      if (place) place.after(fresh);
      else own.prepend(fresh);
      place = fresh;
      added += 1;
    }
    known.forEach(removeRow);
    return added;
  };
  const mergeTrees = (page) => {
    const [own, theirs] = [document, page].map((each) => each.querySelector("[data-live-tree]"));
    const added = own && theirs ? mergeTree(own, theirs) : 0;
    if (added) said.textContent = `New ${noun}s shown`;
  };

  const show = (page) => {
    if ("reload" in place.dataset) {
      if (!page.querySelector("[data-reload]")) location.reload(); // else it would reload again and again
      return;
    }
    keepPlace(() => {
      replaceParts(page);
      mergeTrees(page);
    });
    document.dispatchEvent(new CustomEvent("live:changed"));
    const count = findNew(page).length;
    fetched = count ? page : null;
    bar.hidden = true;
    if (!count) return;
    if (isAtEdge()) {
      said.textContent = `${plural(insert(page))} shown`;
      fetched = null;
    } else {
      said.textContent = "";
      bar.textContent = plural(count);
      bar.hidden = false;
    }
  };

  bar.addEventListener("click", () => {
    if (!fetched) return;
    keepPlace(() => {
      said.textContent = `${plural(insert(fetched))} shown`;
      bar.hidden = true;
      fetched = null;
    });
    if (!document.activeElement || document.activeElement === document.body) {
      list.closest("[tabindex]")?.focus({ preventScroll: true }); // the button that had it is gone
    }
  });

  const refresh = async () => {
    if (isFetching || document.hidden) { isStale = true; return; }
    const wait = nextFetch - performance.now();
    isFetching = true;
    isStale = false;
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    const begun = performance.now();
    let html = null, pause = 0;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.status === 429 || answer.status >= 500) throw new Error(answer.statusText);
      if (answer.ok && !answer.redirected) html = await answer.text();
    } catch {
      isStale = true; // the stream says nothing more of these calls
      pause = AGAIN_MS;
    }
    isFetching = false;
    if (html !== null) show(new DOMParser().parseFromString(html, "text/html"));
    nextFetch = performance.now() + Math.max(pause, SLOWER * (performance.now() - begun));
    if (isStale && source) refresh();
  };

  // -- calls in flight -------------------------------------------------------------------------
  const format = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    return s < 60 ? `${s} s` : `${Math.floor(s / 60)} min ${s % 60} s`;
  };
  const tick = () => {
    for (const age of flying.querySelectorAll(".age")) {
      age.textContent = format(performance.now() - Number(age.dataset.since));
    }
  };
  const showFlights = ({ count, html }) => {
    if (place.dataset.flights === "page") {
      if (count || document.querySelector("[data-flying]")) refresh();
      return;
    }
    const page = new DOMParser().parseFromString(`<ul>${html}</ul>`, "text/html");
    keepPlace(() => {
      const rows = [...page.querySelectorAll("li")].map((row) => {
        const age = row.querySelector(".age");
        if (age) age.dataset.since = performance.now() - Number(age.dataset.age);
        const old = [...flying.children].find((each) => keyOf(each) === keyOf(row));
        if (!old || !age) return document.importNode(row, true);
        old.querySelector(".mark").replaceWith(document.importNode(row.querySelector(".mark"), true));
        return old;
      });
      for (const gone of [...flying.children].filter((each) => !rows.includes(each))) gone.remove();
      rows.forEach((row, index) => {
        if (flying.children[index] !== row) flying.insertBefore(row, flying.children[index] ?? null);
      });
      heading.textContent = `${count} ${count === 1 ? "call" : "calls"} in flight`;
      flights.hidden = count === 0;
      tick();
    });
  };
  setInterval(tick, 1000);

  // -- the stream ------------------------------------------------------------------------------
  const stop = (words) => {
    source?.close();
    source = null;
    state.textContent = words;
  };
  const start = () => {
    if (source || document.hidden || !isOn()) return;
    const query = new URLSearchParams({ after });
    if (place.dataset.session) query.set("session", place.dataset.session);
    if (place.dataset.flights) query.set("flights", "1");
    source = new EventSource(`/live/events?${query}`);
    source.addEventListener("open", () => (state.textContent = ""));
    source.addEventListener("calls", (event) => {
      after = event.lastEventId || after;
      refresh();
    });
    source.addEventListener("flights", (event) => showFlights(JSON.parse(event.data)));
    source.addEventListener("end", () => stop("Following has ended. Reload this page."));
    source.addEventListener("error", () => {
      state.textContent = "Reconnecting …";
      if (source?.readyState !== EventSource.CLOSED) return; // it tries again by itself
      stop("Not following: try again by reloading this page.");
      setTimeout(start, 30_000);
    });
    if (isStale) refresh();
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? stop("") : start()));
  window.addEventListener("pagehide", () => stop(""));
  window.addEventListener("pageshow", (event) => event.persisted && start());
  const isOn = () => dot.getAttribute("aria-pressed") === "true";
  const turn = (isFollowing) => {
    dot.setAttribute("aria-pressed", isFollowing);
    dot.title = isFollowing ? "New calls appear by themselves. Press to pause." : "Paused. Press to follow new calls.";
  };
  dot.addEventListener("click", () => {
    turn(!isOn());
    localStorage.setItem(KEY, isOn() ? "on" : "off");
    if (isOn()) start();
    else {
      stop("");
      flights.hidden = bar.hidden = true;
    }
  });
  turn(localStorage.getItem(KEY) !== "off");
  dot.hidden = false;
  start();
})();
