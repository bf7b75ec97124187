// Close every open menu that a click is outside of.
document.addEventListener("click", (event) => {
  const within = event.target.closest("details");
  for (const menu of document.querySelectorAll("details[open]")) {
    if (menu !== within) menu.open = false;
  }
});
