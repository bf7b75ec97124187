// <time datetime="2026-01-02T03:04:05.678Z">2026-01-02 03:04:05</time>: pages show UTC, like the data.
// The reader's own time is in the title.
(() => {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  for (const element of document.querySelectorAll("time[datetime$=Z]")) {
    const when = new Date(element.dateTime);
    if (!Number.isNaN(when.getTime())) element.title = `Your time: ${format.format(when)}`;
  }
})();
