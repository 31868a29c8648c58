// Plays the page in a browser and prints what it finds, one JSON object a line.
const { modules, input, launch, open } = require("./browser.js");
const axe = require("fs").readFileSync(require.resolve(modules + "/axe-core/axe.min.js"), "utf8");
const within = 20_000;

const wrong = (text) => { throw new Error(text); };
const is = (holds, text) => holds || wrong(text);

// sees fails unless each text is visible, in this order of asking.
const sees = async (where, ...texts) => {
  for (const text of texts) await where.getByText(text).first().waitFor({ timeout: within }).catch((e) => wrong(`no ${text}: ${e.message.slice(0, 300)}`));
};
// answers fails unless the next answer of the status has at most so many KiB.
const answers = async (page, kib) => {
  const response = await page.waitForResponse(/api\/v1\/status/, { timeout: within });
  const size = (await response.body()).length;
  is(size <= kib << 10, `${size} bytes`);
};
// tabbed returns the names of what Tab reaches, each with a visible focus.
const tabbed = async (page) => {
  const reached = [];
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press("Tab");
    const [name, outline] = await page.evaluate(() => [document.activeElement === document.body ? "" : document.activeElement.textContent.trim().slice(0, 60) || document.activeElement.name, getComputedStyle(document.activeElement).outlineStyle]);
    if (name === "") continue;
    if (reached.length > 3 && name === reached[0]) break;
    is(outline !== "none", `${name} shows no focus`);
    reached.push(name);
  }
  return reached;
};
const button = (page, name) => page.getByRole("button", { name });
const stream = (page, name) => page.getByRole("region", { name, exact: true });
const dialogOf = (page) => page.getByRole("dialog");

// axeFinds lists what the accessibility checker calls serious, in one color scheme. While it runs on a busy machine a poll of the page
// can end without its answer, and the page then fades what it no longer knows to be true: that is not what is looked at here.
const axeFinds = async (page, colorScheme) => {
  await page.emulateMedia({ colorScheme });
  // Not as an element of the page, which its policy forbids.
  await page.evaluate(axe);
  let violations = null;
  for (let runs = 0; !violations; runs++) {
    is(runs < 5, "in each of 5 runs a poll of the page had no answer");
    await page.locator("body:not(.stale)").waitFor({ timeout: within });
    violations = await page.evaluate(async () => {
      let faded = document.body.classList.contains("stale");
      new MutationObserver(() => { faded ||= document.body.classList.contains("stale"); }).observe(document.body, { attributeFilter: ["class"] });
      const { violations } = await globalThis.axe.run();
      return faded ? null : violations;
    });
  }
  const bad = violations.filter((v) => ["serious", "critical"].includes(v.impact));
  is(bad.length === 0, bad.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + n.failureSummary).join(" | ")}`).join("\n"));
};

const fits = async (page, width) => {
  await page.setViewportSize({ width, height: 800 });
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  is(over <= 0, `${over} px wider than ${width}`);
};

const isAtMost = async (page, most) => {
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  is(height <= most, `${height} px high, more than ${most}`);
};

// opened shows a stream with its figures and tables.
const opened = async (page, name) => {
  if (!await stream(page, name).count()) await page.getByRole("link", { name, exact: true }).click();
  await stream(page, name).waitFor({ timeout: within });
  return stream(page, name);
};
const all = async (page) => {
  await page.getByRole("link", { name: /All \d+ streams/ }).click();
  await page.getByRole("table", { name: "Streams, the worst first" }).waitFor({ timeout: within });
};
const row = (page, name) => page.locator("tbody").filter({ has: page.getByRole("rowheader", { name: new RegExp(`^\\W*${name}( |$)`) }) });

// always are the checks of each scene that is looked at whole.
const always = {
  "fits a phone of 360 px": (page) => fits(page, 360),
  "fits 400 px": (page) => fits(page, 400),
  "fits 1200 px, and is at most 6,000 px high there": async (page) => { await fits(page, 1200); await isAtMost(page, 6000); },
  "has no serious fault of accessibility in light": (page) => axeFinds(page, "light"),
  "has none in dark": (page) => axeFinds(page, "dark"),
};

const scenes = {
  healthy: {
    ...always,
    "says that all is well, in words": (page) => sees(page, "All 2 tables are running", "2 running", "Source answers", "Bus answers", "mysql · db-1.shop.example:3306"),
    "shows a row for each stream": async (page) => {
      is(await page.locator("tbody").count() === 2, "not 2 rows");
      await sees(row(page, "orders"), "release", "running", "0.4 s", "41", /\/min/);
      is((await row(page, "orders").boundingBox()).height < 60, "a row of a healthy stream takes more than a line");
    },
    "describes the sparkline": async (page) => is(await page.getByRole("img", { name: /Rows of each minute in the last hour: up to/ }).count() === 2, "no text for it"),
    "is read aloud when a state changes, not at each poll": async (page) => {
      const news = page.getByRole("status").first();
      is(await news.textContent() === "All 2 tables are running", await news.textContent());
      const changes = page.evaluate(() => new Promise((done) => {
        let n = 0;
        new MutationObserver((all) => { n += all.length; }).observe(document.querySelector("#news"), { childList: true, characterData: true, subtree: true });
        setTimeout(() => done(n), 4500);
      }));
      is(await changes === 0, "it speaks though nothing has changed");
    },
    "is used with the keyboard": async (page) => {
      await page.goto(page.url().split("#")[0]);
      await row(page, "orders").waitFor();
      const reached = await tabbed(page);
      for (const wanted of ["Skip to the streams", "2 tables", "find", "orders", "stock", "Token", "Runbook"]) is(reached.some((name) => name.endsWith(wanted)), `${wanted} is not reached: ${reached}`);
      await page.getByRole("link", { name: "stock", exact: true }).press("Enter");
      await stream(page, "stock").waitFor({ timeout: within });
      await page.waitForFunction(() => document.activeElement.textContent === "stock", null, { timeout: within });
      const inStream = await tabbed(page);
      for (const wanted of ["All 2 streams", "Reconcile …", "Dry run …", "Resend dead letters …"]) is(inStream.some((name) => name.endsWith(wanted)), `${wanted} is not reached: ${inStream}`);
      await page.goBack();
      await row(page, "orders").waitFor({ timeout: within });
    },
    "shows what no other tool has": async (page) => sees(await opened(page, "orders"), "47", "4 looked for at every poll; 2 inserted by a transaction that is open; 41 looked for every minute; the oldest for 13 min", "they took an id below the position", /9 min ago: every commit up to then is published/),
    "names what is missing, and why": async (page) => {
      await stream(page, "orders").getByText("Which ids are missing, and why").click();
      await sees(page, "shop.orders: ids 84,511,188 to 84,511,192, missed", "publishes the row when it commits");
    },
    "says what a reconcile of a release stream compares": async (page) => {
      await sees(stream(page, "orders"), "no row under ids that are no longer looked for; ended 8 min ago");
      is(await stream(page, "orders").getByRole("button", { name: /Resend/ }).count() === 0, "it offers to resend rows that are not put aside");
      await all(page);
    },
    "shows the last reconcile": async (page) => {
      await sees(await opened(page, "stock"), "3 differences", /1 added, 2 modified; ended 8 min ago/);
      is(await stream(page, "stock").getByRole("button", { name: /Resend/ }).count() === 1, "no resend where rows are put aside");
    },
    "offers no deletes while none are held back": async (page) => is(await button(page, /Allow deletes/).count() === 0, "it does"),
    "asks before a reconcile, and says what will happen": async (page) => {
      await stream(page, "stock").getByRole("button", { name: "Reconcile …" }).press("Enter");
      await sees(dialogOf(page), "Reconcile stock?", "a delete for each entity that is gone", "no delete is published");
      await page.keyboard.press("Escape");
      await all(page);
      await opened(page, "orders");
      for (const name of ["Reconcile …", "Dry run …"]) {
        await stream(page, "orders").getByRole("button", { name }).press("Enter");
        await sees(dialogOf(page), "only ids that were not published and are no longer polled: 0 now. bridge verify compares the whole table.");
        is(!/delete/.test(await dialogOf(page).textContent()), "a delete of a release stream");
        await page.keyboard.press("Escape");
      }
      is(await dialogOf(page).count() === 0, "Escape does not close the dialog");
      is((await asked("healthy")).length === 0, "something was done without an answer");
      await stream(page, "orders").getByRole("button", { name: "Reconcile …" }).click();
      await dialogOf(page).getByRole("button", { name: "Reconcile" }).click();
      await sees(dialogOf(page), "Accepted for 1 table");
      const requests = await asked("healthy");
      is(requests.length === 1 && requests[0] === "orders/{DryRun:false AllowDeletes:false}", String(requests));
      await dialogOf(page).getByRole("button", { name: "Close" }).click();
    },
    "has no serious fault of accessibility with a stream open": (page) => axeFinds(page, "dark"),
    "fits a phone with a stream open": (page) => fits(page, 360),
    "has the runbook beside it": async (page) => {
      await page.setViewportSize({ width: 400, height: 800 });
      await page.goto(new URL("/docs/operations.md#a-stream-is-stopped", page.url()).href);
      is(await page.locator("#a-stream-is-stopped:target").count() === 1, "the heading has no anchor");
      await fits(page, 400);
      await axeFinds(page, "light");
    },
  },
  one: { ...always, "shows it with its figures": (page) => sees(page, "The table is running", "84,511,207", "Complete up to", "60 min ago") },
  backlog: {
    "shows a bar with the time left": async (page) => {
      await sees(page, "Backlog: 53,111,207 ids, 37 % done, about 1 h 37 min left at 9,100 ids/s");
      is(await page.getByRole("progressbar", { name: "Backlog of orders" }).getAttribute("value") === "37.2", "the bar says something else");
    },
    "fits a phone of 360 px": (page) => fits(page, 360),
  },
  outage: {
    ...always,
    "says what is away, since when and why": (page) => sees(page, "2 of 2 tables wait until an outage ends", "Bus does not answer", /since .*\(1 min 3\d s\) · dial tcp 10.0.3.7:9092: connect: connection refused/, "the bus has not acknowledged a batch for 1m34s"),
    "says once what to do, with the runbook": async (page) => {
      is(await page.getByText("What to do: Bring back what does not answer").count() === 1, "not once");
      is(await page.getByRole("link", { name: "Runbook: The bus does not answer" }).first().getAttribute("href") === "/docs/operations.md#the-bus-does-not-answer", "another link");
    },
    "says so in the title": async (page) => is(/wait until/.test(await page.title()), await page.title()),
  },
  stopped: {
    ...always,
    "puts the worst first, with reason and remedy": async (page) => {
      await sees(page, "1 of 2 tables needs a person", "1 stopped", "1 running", "access to the source denied: GRANT SELECT ON", "What to do: Type the GRANT that the error names.", "Runbook: A stream is stopped");
      const first = await page.getByRole("rowheader").first().textContent();
      is(first.startsWith("orders"), first);
    },
    "knows no lag": async (page) => sees(await opened(page, "orders"), "while the table cannot be read"),
  },
  guard: {
    ...always,
    "says that deletes are held back": (page) => sees(page, "deletes held back", /412 entities have no row; deletes of 1 table are held back/, "degraded", "2 × the record has N bytes", "Runbook: A stream is degraded", "Runbook: Dead letters"),
    "shows which entities are concerned before deletes are allowed": async (page) => {
      await button(page, "Allow deletes …").click();
      await sees(dialogOf(page), "Was the table truncated, restored or exchanged?", "It publishes nothing.");
      await button(page, "Show which entities").click();
      await sees(dialogOf(page), "412 entities have no row, and would be deleted. The first 20 are:", "deleted: eu+1 (stock, row 900)", "Publish 412 deletes?");
      is(await dialogOf(page).getByRole("listitem").count() === 20, "not 20 of them");
      is((await asked("guard")).join() === "stock/{DryRun:true AllowDeletes:false}", "more than a dry run was requested");
      await axeFinds(page, "light");
      await button(page, "Publish the deletes").click();
      await sees(dialogOf(page), "In this run deletes are published, however many.");
      is((await asked("guard"))[1] === "stock/{DryRun:false AllowDeletes:true}", String(await asked("guard")));
      await button(page, "Close").click();
    },
    "shows what a resend would send, before it does": async (page) => {
      await button(page, "Resend dead letters …").click();
      await button(page, "Show what would be sent").click();
      await sees(dialogOf(page), "2 dead letters: 2 to publish. Nothing was published.", "stock, row 4711: published; it was refused because the record has 1200000 bytes");
      await dialogOf(page).getByRole("button", { name: "Resend", exact: true }).click();
      await sees(dialogOf(page), "2 dead letters: 2 published.");
      is((await asked("guard")).slice(2).join() === "stock/resend-all/true,stock/resend-all/false", String(await asked("guard")));
      await button(page, "Close").click();
    },
  },
  paused: {
    ...always,
    "says so, and what has it go on": async (page) => {
      await sees(page, "1 of 2 tables is paused", "a person has paused it at", "Runbook: A stream is paused");
      await sees(await opened(page, "orders"), "while the table is paused");
    },
    "resumes it": async (page) => {
      const orders = await opened(page, "orders");
      is(await button(orders, "Pause …").count() === 0, "it can be paused twice");
      await button(orders, "Resume …").click();
      await dialogOf(page).getByRole("button", { name: "Resume" }).click();
      await sees(dialogOf(page), "1 table resumed.");
      is((await asked("paused")).join() === "{Stream:orders Table: Resume:true}", String(await asked("paused")));
      await button(page, "Close").click();
    },
  },
  large: {
    ...always,
    "lists the worst of 1,000 tables": async (page) => {
      await sees(page, "1 of 1,000 tables needs a person", "997 running", "2 waiting", "1 to 20 of 1,000 tables, the worst first");
      const names = await page.getByRole("rowheader").allTextContents();
      is(names.length === 20 && names[0] === "shop.orders_0007" && names[3] === "shop.orders_0042", names.join());
    },
    "shows more of a table when it is asked to": async (page) => {
      await button(page, "shop.orders_0042").press("Enter");
      await sees(row(page, "shop.orders_0042"), "Backlog: 18,000 ids, 61 % done", "Complete up to", "Last reconcile");
      is(await button(page, "shop.orders_0042").getAttribute("aria-expanded") === "true", "it does not say that it is open");
      await fits(page, 400);
    },
    "gets a small answer": (page) => answers(page, 32),
    "pages and filters on the server": async (page) => {
      await button(page, "Next").click();
      await sees(page, "21 to 40 of 1,000 tables");
      await page.getByLabel("Find a stream or table").fill("_020");
      await sees(page, "1 to 10 of 10 tables that match, of 1,000", "shop.orders_0204");
      await button(page, "2 waiting").click();
      await sees(page, "1 to 1 of 1 table that match");
      is(page.url().includes("find=_020"), "the address does not keep it");
      await page.reload();
      await sees(page, "1 to 1 of 1 table that match");
      await button(page, "1 stopped").click();
      await sees(page, "No tables match.", "orders");
    },
  },
  many: {
    ...always,
    "adds up": (page) => sees(page, "1 of 200 tables needs a person", "200 tables", "199 running", "1 stopped", "1 to 40 of 200 streams, the worst first"),
    "puts the one that is stopped first": async (page) => {
      is((await page.getByRole("rowheader").first().textContent()).startsWith("orders-120"), "another one");
      is(await page.getByText(/What to do/).count() === 1, "others have a remedy, too");
    },
    "gets a small answer": (page) => answers(page, 64),
    "pages and filters": async (page) => {
      await button(page, "Next").click();
      await sees(page, "41 to 80 of 200 streams");
      await button(page, "1 stopped").click();
      await sees(page, "1 to 1 of 1 stream that match, of 200");
      is(await page.getByRole("rowheader").count() === 1, "others are listed");
      await button(page, "200 tables").click();
      await page.getByLabel("Find a stream or table").fill("shop.stock_1");
      await sees(page, "1 to 25 of 25 streams that match, of 200");
      await page.getByLabel("Find a stream or table").fill("nothing");
      await sees(page, "No streams match.");
    },
    "says that there is no such stream": async (page) => {
      await page.goto(page.url().split("#")[0] + "#stream=none");
      await sees(page, "There is no stream none.");
      await page.getByRole("link", { name: "Show all streams" }).click();
      await sees(page, "1 to 40 of 200 streams");
    },
  },
  twenty: {
    ...always,
    "adds up": (page) => sees(page, "20 streams, 60 tables", "1 stopped", "1 degraded", "1 waiting", "1 starting", "56 running"),
    "shows every state, the worst first": async (page) => {
      const states = await page.locator("tbody .state > span:last-child").allTextContents();
      is(states.slice(0, 5).join() === "stopped,degraded,waiting,starting,running" && states.slice(5).every((one) => one === "running"), states.join());
      await sees(row(page, "invoices-003"), "1 stopped, 3 running", "shop.invoices_003: access to the source denied");
      await sees(row(page, "orders-004"), /deletes of 1 table are held back; 2 dead letters/);
      await sees(row(page, "stock-014"), "backlog 37 % done, about 1 h 37 min left at 9,100 ids/s");
      await sees(row(page, "customers-017"), "catches up from the bus, 120,000 offsets left, about 40 s");
    },
    "shows the tables of one": async (page) => {
      await sees(await opened(page, "customers-009"), "1 waiting, 4 running", "1 to 5 of 5 tables", "shop.customers_009_5");
      await all(page);
    },
  },
  allWait: {
    "says once what to do, and is at most 6,000 px high": async (page) => {
      await sees(page, "200 of 200 tables wait until an outage ends");
      is(await page.getByText("What to do: Bring back").count() === 1, "not once");
      await fits(page, 1200);
      await isAtMost(page, 6000);
    },
  },
  hostile: {
    "shows markup in names as text": async (page) => {
      await sees(page, `no such table: <img src=x onerror=`);
      is(await page.locator("#streams img").count() === 0, "a name became an element");
      is(!(await page.title()).includes("hacked"), "a name was executed");
    },
    "keeps the digits of large ids": (page) => sees(page, "1,152,921,504,606,846,977"),
    "names it in a dialog as text": async (page) => {
      await button(page, "Reconcile …").first().click();
      await sees(dialogOf(page), "Reconcile <img src=x");
      await page.keyboard.press("Escape");
    },
    "fits 1200 px": (page) => fits(page, 1200),
    "fits a phone of 360 px": (page) => fits(page, 360),
  },
  gone: {
    ...always,
    "says so of the table, and what it means": async (page) => {
      await sees(page, "1 of 3 tables is gone", "2 running");
      await sees(page, "share 2/8: the other tables are those of other processes");
      await sees(await opened(page, "stock"), "the server that takes the writes has no such table", "What to do: Nothing, if its entities are to stay.", "Runbook: Tables of a pattern");
    },
  },
  standby: {
    "says who works and who waits, and shows the one that works": (page) => sees(page, "Standby group shop", /This process waits\. a on node-1 works since .*; below is its status\./, "b on node-2 waits, ready to take over", "c on node-3 waits, and differs in BRIDGE_STREAM_ORDERS_KEY", "All 2 tables are running"),
  },
  upgrade: {
    "shows the one that works though that is of an earlier version": async (page) => {
      await sees(page, /a on node-1 works since .*; below is its status/, "All 2 tables are running");
      page.complaints.length = 0;
    },
  },
  lost: {
    "says that it has lost the daemon, and recovers": async (page) => {
      await control("lost", "lose");
      const banner = page.getByRole("alert").filter({ hasText: /No answer from bridge since \d\d:\d\d:\d\d. What you see is from then./ });
      await banner.waitFor({ timeout: within });
      is(await page.evaluate(() => getComputedStyle(document.querySelector("main")).opacity) < 1, "old data look new");
      page.complaints.length = 0;
      await control("lost", "find");
      await banner.waitFor({ state: "hidden", timeout: within });
      page.complaints.length = 0;
    },
  },
  token: {
    "says what is missing, and goes on with the token": async (page) => {
      await button(page, "Reconcile …").click();
      await button(page, "Reconcile", { exact: true }).last().click();
      await sees(dialogOf(page), "send that of BRIDGE_HTTP_TOKEN");
      await dialogOf(page).getByLabel("Token").fill("sesame");
      await dialogOf(page).getByRole("button", { name: "Reconcile" }).click();
      await sees(dialogOf(page), "Accepted for 1 table");
      is(await page.evaluate(() => sessionStorage.length === 1 && localStorage.length === 0), "the token is kept elsewhere");
      page.complaints.length = 0;
      await button(page, "Close").click();
    },
  },
  real: {
    "shows what a real bridge does": (page) => sees(page, "The table is running", "Source answers", "sqlite", "60", /in the last hour/),
    "reconciles a real table": async (page) => {
      await button(page, "Dry run …").click();
      await button(page, "Start the dry run").click();
      await sees(dialogOf(page), /1 difference: 1 modified\. Nothing was published\./, "modified: o3 (orders, row 3)");
      await button(page, "Close").click();
    },
    "agrees to real deletes": async (page) => {
      await control("real", "delete");
      await button(page, "Reconcile …").click();
      await dialogOf(page).getByRole("button", { name: "Reconcile" }).click();
      await sees(dialogOf(page), "Accepted for 1 table");
      await button(page, "Close").click();
      await sees(page, "deletes held back", "The table needs a person", "degraded", /40 of 60 live entities/);
      await button(page, "Allow deletes …").click();
      await button(page, "Show which entities").click();
      await sees(dialogOf(page), "40 entities have no row, and would be deleted. The first 20 are:", "deleted: o21 (orders, row 21)", "Publish 40 deletes?");
      await button(page, "Publish the deletes").click();
      await button(page, "Close").click();
      await sees(page, "The table is running", "40 differences", /40 deleted/);
    },
    "offers no resend where no row is put aside": async (page) => {
      is(await button(page, /Resend/).count() === 0, "it does");
      const answer = await page.evaluate(async () => (await fetch("/api/v1/streams/orders/resend-all", { method: "POST" })).json());
      is(/cannot send dead letters again now: BRIDGE_DEAD_LETTER is not set/.test(answer.error), answer.error);
      page.complaints = page.complaints.filter((text) => !text.includes("409"));
    },
  },
};

const asked = async (scene) => (await fetch(`${input[scene]}/control/asked`)).json();
const control = (scene, what) => fetch(`${input[scene]}/control/${what}`);

(async () => {
  const browser = await launch();
  const play = async (name) => {
    const page = await open(browser, input[name] + "/");
    page.setDefaultTimeout(within);
    for (const [check, run] of Object.entries(scenes[name])) {
      let found = "";
      try { await run(page); } catch (e) { found = e.message.split("\nCall log")[0]; }
      console.log(JSON.stringify({ Scene: name, Check: check, Wrong: found }));
    }
    console.log(JSON.stringify({ Scene: name, Check: "makes the browser complain of nothing", Wrong: page.complaints.join("\n") }));
    await page.context().close();
  };
  // Two at a time: a few of them wait.
  const left = Object.keys(input);
  await Promise.all([1, 2].map(async () => { while (left.length) await play(left.shift()); }));
  await browser.close();
})();
