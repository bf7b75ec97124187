// <details data-part="/address">: asks for its content when it is first opened, and puts it in place of
// what is in its .later element, a link to the same on a page of its own. What comes is our own server's
// page part, in which everything that was ever sent by anybody is escaped; no script in it would run.
(() => {
  const load = async (details) => {
    const place = details.querySelector(":scope > .later");
    const address = details.dataset.part;
    if (!place || details.dataset.asked) return;
    details.dataset.asked = "yes";
    const link = [...place.childNodes];
    place.setAttribute("aria-busy", "true");
    place.textContent = "Loading …";
    try {
      const answer = await fetch(address, { headers: { accept: "text/html" } });
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      const part = new DOMParser().parseFromString(await answer.text(), "text/html");
      place.removeAttribute("aria-live"); // nobody wants all of it read out
      place.replaceChildren(...part.body.childNodes);
    } catch {
      const words = document.createElement("p");
      words.textContent = "It could not be loaded. ";
      place.replaceChildren(words, ...link);
      delete details.dataset.asked;
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
