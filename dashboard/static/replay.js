// The page that sends a call again. The request goes from here to the proxy endpoint, with the credential
// that was pasted: it is read when Send is pressed and kept nowhere, and the field is emptied when the page
// is left. What comes back is shown as text, whatever is in it.
(() => {
  const page = document.getElementById("replay");
  const find = (id) => document.getElementById(id);
  const body = find("body"), credential = find("credential"), send = find("send"), stop = find("stop");
  const bodyState = find("body-state"), sendState = find("send-state"), shown = find("new-response");
  const original = body?.value;
  const checkAfterMs = 500, pollMs = 400, maxPolls = 75, maxShown = 400000;
  let running = null;

  // -- the fields of the body -----------------------------------------------------------------------

  // The places of the members of the object that a JSON text is: name, where it begins, where its value
  // begins and ends. Only the text of a member is replaced, since the order of keys and the spelling of
  // numbers count for the prompt cache.
  const listMembers = (text) => {
    const members = [];
    const string = /"(?:[^"\\]|\\.)*"/y;
    let depth = 0, name = null, start = 0, from = 0;
    const end = (at) => {
      if (name !== null) members.push({ name, start, from, to: text.slice(0, at).trimEnd().length });
      name = null;
    };
    for (let at = 0; at < text.length; at += 1) {
      const sign = text[at];
      if (sign === '"') {
        string.lastIndex = at;
        const found = string.exec(text);
        if (!found) return [];
        const after = at + found[0].length;
        if (depth === 1 && name === null) {
          name = JSON.parse(found[0]);
          start = at;
          from = text.indexOf(":", after) + 1;
          at = from - 1;
        } else {
          at = after - 1;
        }
      } else if (sign === "{" || sign === "[") {
        depth += 1;
      } else if (sign === "}" || sign === "]") {
        depth -= 1;
        if (depth === 0) end(at);
      } else if (sign === "," && depth === 1) {
        end(at);
      }
    }
    return members;
  };

  const setMember = (text, name, value) => {
    const members = listMembers(text);
    const place = members.findIndex((each) => each.name === name);
    if (place < 0) {
      if (value === null) return text;
      const at = text.indexOf("{") + 1;
      return `${text.slice(0, at)}\n  ${JSON.stringify(name)}: ${value}${members.length ? "," : ""}${text.slice(at)}`;
    }
    const { start, from, to } = members[place];
    if (value !== null) return `${text.slice(0, from)} ${value}${text.slice(to)}`;
    const next = members[place + 1], before = members[place - 1];
    if (next) return text.slice(0, start) + text.slice(next.start);
    return text.slice(0, before ? before.to : start) + text.slice(to);
  };

  const parse = () => {
    try {
      const value = JSON.parse(body.value);
      return value && typeof value === "object" && !Array.isArray(value)
        ? { value }
        : { problem: "The body is not a JSON object." };
    } catch (error) {
      return { problem: `This is not JSON: ${error.message}` };
    }
  };

  const fields = [...page.querySelectorAll("[data-field]")];
  const fillFields = (request) => {
    for (const field of fields) {
      const value = request[field.dataset.field];
      if (field !== document.activeElement) field.value = value === undefined ? "" : String(value);
    }
  };

  const takeField = (field) => {
    const { field: name, kind } = field.dataset;
    const typed = field.value.trim();
    if (parse().problem) return;
    let value = null;
    if (typed && kind === "text") value = JSON.stringify(typed);
    else if (typed) value = kind === "choice" || /^-?[0-9]+(\.[0-9]+)?$/.test(typed) ? typed : JSON.stringify(typed);
    body.value = setMember(body.value, name, value);
    check();
  };

  // -- checks ---------------------------------------------------------------------------------------

  let timer = 0, number = 0;
  const say = (text, isWrong) => {
    bodyState.textContent = text;
    bodyState.classList.toggle("wrong", Boolean(isWrong));
  };

  const askService = async () => {
    const mine = (number += 1);
    try {
      const response = await fetch(`/traces/usage/${page.dataset.call}/replay/check`, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json" },
        body: body.value,
      });
      if (mine !== number) return;
      const found = await response.json();
      if (!response.ok) say(found.error?.message ?? "", false);
      else if (found.problems.length) say(found.problems.join("\n"), true);
      else say(found.changes.length ? `Changed: ${found.changes.join(", ")}` : "As it was recorded.", false);
    } catch {
      if (mine === number) say("", false); // only a help: sending does not depend on it
    }
  };

  const check = () => {
    clearTimeout(timer);
    number += 1;
    const { value, problem } = parse();
    if (problem) {
      say(problem, true);
      return;
    }
    fillFields(value);
    timer = setTimeout(askService, checkAfterMs);
  };

  // -- the response ---------------------------------------------------------------------------------

  const blocks = new Map();
  let length = 0;
  const addText = (index, label, text) => {
    let block = blocks.get(index);
    if (!block) {
      block = document.createElement("div");
      block.className = "block";
      if (label) {
        const head = document.createElement("p");
        head.className = "block-head kind";
        head.textContent = label;
        block.append(head);
      }
      const place = document.createElement(label ? "pre" : "p");
      place.className = label ? "code" : "said";
      place.dir = "auto";
      block.append(place);
      shown.append(block);
      blocks.set(index, block);
    }
    length += text.length;
    if (length <= maxShown) block.lastChild.append(text);
    else if (length - text.length <= maxShown) block.lastChild.append(" … (the rest is on the page of the new call)");
  };

  const labelOf = (block) => {
    if (block.type === "text") return "";
    if (block.type === "thinking") return "Thinking";
    return block.name ? `${block.type}: ${block.name}` : String(block.type);
  };
  const textOf = (block) => {
    if (block.type === "text") return String(block.text ?? "");
    if (block.type === "thinking") return String(block.thinking ?? "");
    return JSON.stringify(block.input ?? block, null, 2);
  };

  const showDocument = (text) => {
    let document_ = null;
    try {
      document_ = JSON.parse(text);
    } catch {
      addText("raw", "Response", text);
      return;
    }
    if (Array.isArray(document_?.content)) {
      document_.content.forEach((block, index) => addText(index, labelOf(block), textOf(block)));
    } else {
      addText("raw", document_?.error?.type ?? "Response", document_?.error?.message ?? text);
    }
  };

  const showEvent = (data) => {
    let event = null;
    try {
      event = JSON.parse(data);
    } catch {
      return;
    }
    if (event.type === "content_block_start") {
      const block = event.content_block ?? {};
      const first = block.type === "text" || block.type === "thinking" ? textOf(block) : "";
      addText(event.index, labelOf(block), first);
    } else if (event.type === "content_block_delta") {
      const delta = event.delta ?? {};
      addText(event.index, "", String(delta.text ?? delta.thinking ?? delta.partial_json ?? ""));
    } else if (event.type === "error") {
      addText("error", event.error?.type ?? "error", event.error?.message ?? data);
    }
  };

  const readEvents = async (response) => {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      waiting += value;
      const lines = waiting.split(/\r?\n/);
      waiting = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) showEvent(line.slice(5));
      }
    }
  };

  // -- sending --------------------------------------------------------------------------------------

  const readJson = async (address) => {
    const response = await fetch(address, { headers: { accept: "application/json" }, cache: "no-store" });
    if (response.ok) return response.json();
    const problem = await response.json().catch(() => ({}));
    throw new Error(problem.error?.message ?? `The service responded with ${response.status}.`);
  };

  const chooseBody = async () => {
    if (body && body.value !== original) return body.value;
    if (!page.dataset.request) return body.value;
    const response = await fetch(page.dataset.request, { cache: "no-store" });
    if (!response.ok) throw new Error("The recorded request cannot be read any more. Reload this page.");
    return response.blob();
  };

  const showEntry = async (run) => {
    const place = find("new-figures");
    for (let n = 0; n < maxPolls; n += 1) {
      const entry = await readJson(`/traces/usage/${page.dataset.call}/replay/entry?run=${encodeURIComponent(run)}`);
      if (entry.id !== null) {
        const cost = document.createElement("b");
        cost.textContent = entry.cost;
        const call = document.createElement("a");
        call.href = `/calls/${entry.id}`;
        call.textContent = `Call ${entry.id}`;
        const compare = document.createElement("a");
        compare.href = `/traces/usage/${page.dataset.call}/compare/${entry.id}`;
        compare.textContent = "Compare both";
        const said = ` ${entry.prompt} tokens in, ${entry.cache_share} from cache, ${entry.output} out, ${entry.duration} `;
        place.replaceChildren(`${entry.outcome} `, cost, said, call, " · ", compare);
        return;
      }
      await new Promise((resume) => setTimeout(resume, pollMs));
    }
    place.textContent = "The new call is not recorded yet. It will be in the list of traces.";
  };

  const fetchResponse = async (signal) => {
    const typed = credential.value.trim();
    const request = await chooseBody();
    const betas = find("betas").value.trim();
    const isBeta = page.dataset.beta === "true";
    const ticket = await readJson(
      `/traces/usage/${page.dataset.call}/replay/ticket?endpoint=${encodeURIComponent(find("endpoint").value)}&beta=${isBeta}`,
    );
    const { vendor, version } = page.dataset;
    const headers = { "content-type": "application/json", [`${vendor}-version`]: version, [ticket.header]: ticket.ticket };
    if (betas) headers[`${vendor}-beta`] = betas;
    if (find("scheme").value === "authorization") headers.authorization = `Bearer ${typed}`;
    else headers["x-api-key"] = typed;
    const response = await fetch(ticket.address, {
      method: "POST",
      headers,
      body: request,
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
    return [response, ticket.run];
  };

  const sendNow = async () => {
    if (running) return;
    if (!credential.value.trim()) {
      sendState.textContent = "Paste the credential of the upstream first.";
      credential.focus();
      return;
    }
    if (body && parse().problem) {
      check();
      sendState.textContent = "The body is not JSON.";
      body.focus();
      return;
    }
    running = new AbortController();
    send.disabled = true;
    stop.hidden = false;
    sendState.textContent = "Sending …";
    shown.replaceChildren();
    shown.setAttribute("aria-busy", "true");
    find("new-figures").textContent = "";
    blocks.clear();
    length = 0;
    let run = null;
    try {
      const [response, itsRun] = await fetchResponse(running.signal);
      run = itsRun;
      sendState.textContent = `Status ${response.status}. Receiving …`;
      const isStream = (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
      if (isStream) await readEvents(response);
      else showDocument(await response.text());
      sendState.textContent = `Status ${response.status}.`;
    } catch (error) {
      sendState.textContent = error.name === "AbortError" ? "Stopped." : error.message;
    }
    shown.setAttribute("aria-busy", "false");
    running = null;
    send.disabled = false;
    stop.hidden = true;
    if (run) await showEntry(run).catch((error) => (find("new-figures").textContent = error.message));
  };

  const forget = () => {
    credential.value = "";
    running?.abort();
  };

  send.addEventListener("click", sendNow);
  stop.addEventListener("click", () => running?.abort());
  body?.addEventListener("input", check);
  for (const field of fields) field.addEventListener("change", () => takeField(field));
  addEventListener("pagehide", forget);
  forget();
  page.hidden = false;
  if (body) check();
})();
