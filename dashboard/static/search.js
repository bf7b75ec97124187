// The key / goes to the search box, unless something is being typed.
(() => {
  const box = document.getElementById("search-box");
  if (!box) return;
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target;
    if (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName)) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
})();
