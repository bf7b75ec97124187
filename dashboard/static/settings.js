// The settings were one page: an address with a fragment of it leads to the page that has it now. A fragment
// reaches no server.
(() => {
  const PARTS = {
    budgets: "budgets", retention: "data", keys: "people", members: "people", organizations: "people",
    activity: "security", sessions: "security",
  };
  const part = PARTS[location.hash.slice(1)];
  if (part && location.pathname === "/settings/endpoints") location.replace(`/settings/${part}${location.search}${location.hash}`);
})();
