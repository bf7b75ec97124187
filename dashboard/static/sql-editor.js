// The editor of Datasette's query pages; theirs is a script within the page.
window.addEventListener("load", () => {
  const format = document.querySelector("button#sql-format");
  const shown = document.querySelector("pre#sql-query");
  const input = document.querySelector("textarea#sql-editor");
  if (input) {
    const editor = CodeMirror.fromTextArea(input, {
      lineNumbers: true,
      mode: "text/x-sql",
      lineWrapping: true,
    });
    editor.setOption("extraKeys", {
      "Shift-Enter": () => document.querySelector("form.sql").submit(),
      Tab: false,
    });
    // What is typed into is the editor's own field, which our label does not reach.
    editor.getInputField().setAttribute("aria-label", "SQL");
    cmResize(editor, { resizableWidth: false });
    if (format) {
      format.hidden = false;
      format.addEventListener("click", () => editor.setValue(sqlFormatter.format(editor.getValue())));
    }
  } else if (format && shown) {
    const formatted = sqlFormatter.format(shown.textContent);
    if (formatted !== shown.textContent) {
      format.hidden = false;
      format.addEventListener("click", () => { shown.textContent = formatted; });
    }
  }
});
