// <details data-part="/address">: requests its content when it is first opened, and puts it in place of
// what is in its .later element, a link to the same on a page of its own. What comes is our own server's
// page part, in which everything that was ever sent by anybody is escaped; no script in it would run.
(() => {
  const load = async (details) => {
    const place = details.querySelector(":scope > .later");
    const address = details.dataset.part;
    if (!place || details.dataset.requested) return;
    details.dataset.requested = "yes";
    const link = [...place.childNodes];
    place.setAttribute("aria-busy", "true");
    place.textContent = "Loading …";
    try {
      const response = await fetch(address, { headers: { accept: "text/html" } });
      if (!response.ok || response.redirected) throw new Error(String(response.status));
      const part = new DOMParser().parseFromString(await response.text(), "text/html");
      place.removeAttribute("aria-live"); // nobody wants all of it read out
      place.replaceChildren(...part.body.childNodes);
    } catch {
      const words = document.createElement("p");
      words.textContent = "It could not be loaded. ";
      place.replaceChildren(words, ...link);
      delete details.dataset.requested;
    }
    place.removeAttribute("aria-busy");
  };

  // toggle does not bubble, but it can be caught on its way down.
  document.addEventListener(
    "toggle",
    (event) => {
      if (event.target.open && event.target.dataset.part) load(event.target);
    },
    true,
  );
  for (const details of document.querySelectorAll("details[data-part][open]")) load(details);
})();
