// The page of a call in flight: its response grows, as text. The reader's place stays.
(() => {
  const place = document.querySelector("[data-live-call]");
  const parts = document.getElementById("parts");
  const status = document.getElementById("status");
  const ended = document.getElementById("ended");
  if (!place || !window.EventSource) return;

  const find = (index, label) => {
    const there = parts.querySelector(`[data-part="${index}"]`);
    if (there) return there.querySelector("pre");
    const part = document.createElement("section");
    part.className = "part";
    part.dataset.part = index;
    const heading = document.createElement("h3");
    heading.textContent = label;
    const text = document.createElement("pre");
    part.append(heading, text);
    parts.append(part);
    return text;
  };

  const source = new EventSource(place.dataset.liveCall);
  source.addEventListener("response", (event) => {
    const data = JSON.parse(event.data);
    if (status.textContent !== data.status) status.textContent = data.status;
    const isAtTail = window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 40;
    for (const { part, label, at, text } of data.parts) {
      const shown = find(part, label);
      if (at === 0) shown.textContent = text; // from the beginning: the page was loaded, or reconnected
      else shown.append(text);
    }
    if (isAtTail && window.scrollY > 0) window.scrollTo(0, document.documentElement.scrollHeight);
  });
  source.addEventListener("ended", (event) => {
    source.close();
    const { address } = JSON.parse(event.data);
    if (address) ended.querySelector("a").href = address;
    ended.hidden = false;
    status.textContent = "The call has ended.";
  });
  source.addEventListener("end", () => {
    source.close();
    status.textContent = "Following has ended. Reload this page.";
  });
  window.addEventListener("pagehide", () => source.close());
})();
