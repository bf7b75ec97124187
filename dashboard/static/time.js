// <time datetime="2026-01-02T03:04:05.678Z">2026-01-02 03:04:05 UTC</time>: shows the reader's own time
// and keeps UTC as the title. With data-short the date is short, and left out when it is today; with
// data-day there is no time.
(() => {
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const formats = {
    long: new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", ...clock }),
    short: new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", ...clock }),
    day: new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" }),
    today: new Intl.DateTimeFormat(undefined, clock),
  };
  const now = new Date();

  const choose = (when, asked) => {
    if ("day" in asked) return formats.day;
    if (!("short" in asked) || when.getFullYear() !== now.getFullYear()) return formats.long;
    return when.toDateString() === now.toDateString() ? formats.today : formats.short;
  };

  for (const element of document.querySelectorAll("time[datetime$=Z]")) {
    const when = new Date(element.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    element.title = element.dateTime.replace("T", " ").replace("Z", " UTC");
    element.textContent = choose(when, element.dataset).format(when);
  }
})();
