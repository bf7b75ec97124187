// <time datetime="2026-01-02T03:04:05.678Z">03:04</time>: pages show the organisation's time. Pointing at one shows
// the reader's own, and how long ago it was.
(() => {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const relative = new Intl.RelativeTimeFormat("en", { style: "short" });
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

  const tell = (element) => {
    const when = new Date(element.dateTime);
    if (Number.isNaN(when.getTime())) return;
    const seconds = (when.getTime() - Date.now()) / 1000;
    const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? UNITS.at(-1);
    element.title = `Your time: ${format.format(when)}, ${relative.format(Math.round(seconds / size), unit)}`;
  };
  const all = () => document.querySelectorAll("time[datetime$=Z]").forEach(tell);
  document.addEventListener("pointerover", (event) => {
    const element = event.target.closest?.("time[datetime$=Z]");
    if (element) tell(element);
  });
  all();
})();
