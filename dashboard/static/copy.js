// <button type="button" data-copy="text" hidden>Copy</button>: copies the text and says so. The button
// shows only where this runs. Outside https and localhost there is no clipboard to write to, so the
// text is selected and copied as a person would.
(() => {
  const shownFor = 2000;
  const buttons = document.querySelectorAll("button[data-copy]");
  if (!buttons.length) return;

  const status = document.createElement("div");
  status.className = "vh";
  status.setAttribute("role", "status");
  status.setAttribute("aria-live", "polite");
  document.body.append(status);

  const copySelected = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "vh";
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  };

  const copy = async (text) => {
    if (!navigator.clipboard) return copySelected(text);
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copySelected(text);
    }
  };

  for (const button of buttons) {
    const label = button.textContent;
    let timer;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const said = (await copy(button.dataset.copy)) ? "Copied" : "Not copied: select it by hand";
      button.focus();
      button.textContent = said;
      status.textContent = said;
      clearTimeout(timer);
      timer = setTimeout(() => {
        button.textContent = label;
        status.textContent = "";
      }, shownFor);
    });
  }
})();
