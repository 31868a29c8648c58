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

// always are the checks of each scene that is looked at whole.
const always = {
  "fits a phone of 360 px": (page) => fits(page, 360),
  "fits 1280 px": (page) => fits(page, 1280),
  "has no serious fault of accessibility in light": (page) => axeFinds(page, "light"),
  "has none in dark": (page) => axeFinds(page, "dark"),
};

const scenes = {
  healthy: {
    ...always,
    "says that all is well, in words": (page) => sees(page, "All 2 streams are running", "Source answers", "Bus answers", "mysql · db-1.shop.example:3306"),
    "shows what no other tool has": (page) => sees(stream(page, "orders"), "6 hot", "2 of them pending, 41 cold, 0 unpolled; oldest 13 min", "found in gaps since the start", /9 min ago: all commits up to then are published/),
    "shows the last reconcile": (page) => sees(stream(page, "stock"), /differences: 1 added, 2 modified; ended 8 min ago; delete guard quiet/),
    "describes the sparkline": async (page) => is(await page.getByRole("img", { name: /Rows of each minute in the last hour: up to/ }).count() === 2, "no text for it"),
    "names what is missing, and why": async (page) => {
      await stream(page, "orders").getByText("What is missing, and why").click();
      await sees(page, "shop.orders: ids 84,511,188 to 84,511,192, missed", "their rows are published when it commits");
    },
    "is read aloud when a state changes, not at each poll": async (page) => {
      const news = page.getByRole("status").first();
      is(await news.textContent() === "All 2 streams are running", await news.textContent());
      const changes = page.evaluate(() => new Promise((done) => {
        let n = 0;
        new MutationObserver((all) => { n += all.length; }).observe(document.querySelector("#news"), { childList: true, characterData: true, subtree: true });
        setTimeout(() => done(n), 4500);
      }));
      is(await changes === 0, "it speaks though nothing has changed");
    },
    "offers to resend where rows are put aside": async (page) => {
      is(await stream(page, "stock").getByRole("button", { name: /Resend/ }).count() === 1, "not of stock");
      is(await stream(page, "orders").getByRole("button", { name: /Resend/ }).count() === 0, "of orders, too");
    },
    "says what a reconcile of a release stream compares": (page) => sees(stream(page, "orders"), "no row under unpolled ids; ended 8 min ago"),
    "offers no deletes while none are held back": async (page) => is(await button(page, /Allow deletes/).count() === 0, "it does"),
    "is used with the keyboard": async (page) => {
      await page.goto(page.url().split("#")[0]);
      await stream(page, "orders").waitFor();
      const reached = [];
      for (let i = 0; i < 40; i++) {
        await page.keyboard.press("Tab");
        const [name, outline] = await page.evaluate(() => [document.activeElement === document.body ? "" : document.activeElement.textContent.trim().slice(0, 60) || document.activeElement.name, getComputedStyle(document.activeElement).outlineStyle]);
        if (name === "") continue;
        if (reached.length > 3 && name === reached[0]) break;
        is(outline !== "none", `${name} shows no focus`);
        reached.push(name);
      }
      for (const wanted of ["Skip to the streams", "What is missing", "Reconcile …", "Dry run …", "Resend dead letters …", "Token"]) is(reached.some((name) => name.startsWith(wanted) || name === wanted), `${wanted} is not reached: ${reached}`);
    },
    "asks before a reconcile, and says what will happen": async (page) => {
      await stream(page, "stock").getByRole("button", { name: "Reconcile …" }).press("Enter");
      await sees(dialogOf(page), "Reconcile stock?", "a delete for each entity that is gone", "no delete is published");
      await page.keyboard.press("Escape");
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
  },
  backlog: {
    "shows a bar with the time left": async (page) => {
      await sees(page, "Backlog: 53,111,207 ids, 37 % done, about 1 h 37 min left at 9,100 ids/s");
      is(await page.getByRole("progressbar", { name: "Backlog of orders" }).getAttribute("value") === "37.2", "the bar says something else");
    },
    "fits a phone of 360 px": (page) => fits(page, 360),
  },
  outage: {
    ...always,
    "says what is away, since when and why": (page) => sees(page, "2 streams wait for what does not answer", "Bus does not answer", /since .*\(1 min 3\d s\) · dial tcp 10.0.3.7:9092: connect: connection refused/, "the bus has not acknowledged a batch for 1m34s", "What to do: Bring back what does not answer"),
    "says so in the title": async (page) => is(/wait for/.test(await page.title()), await page.title()),
  },
  stopped: {
    ...always,
    "puts the worst first, with reason and remedy": async (page) => {
      await sees(page, "1 stream needs a person", "shop.orders is stopped", "access to the source denied: GRANT SELECT ON", "What to do: Type the GRANT that the error names.");
      const first = await page.locator("#streams").getByRole("heading", { level: 2 }).first().textContent();
      is(first === "orders", first);
    },
    "knows no lag": (page) => sees(stream(page, "orders"), "while the table cannot be read"),
  },
  guard: {
    ...always,
    "says that the guard has tripped": (page) => sees(page, "guard tripped", /412 entities have no row; deletes of 1 table are held back/, "stock is degraded", "2 × the record has N bytes"),
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
      await sees(dialogOf(page), "2 dead letters: 2 same. Nothing was published.", "stock, row 4711: same; it was refused because the record has 1200000 bytes");
      await dialogOf(page).getByRole("button", { name: "Resend", exact: true }).click();
      await sees(dialogOf(page), "2 dead letters: 2 same.");
      is((await asked("guard")).slice(2).join() === "stock/resend-all/true,stock/resend-all/false", String(await asked("guard")));
      await button(page, "Close").click();
    },
  },
  large: {
    ...always,
    "lists the worst of 2,000 tables": async (page) => {
      await sees(page, "2,000", /1,997 running/, "1 to 20 of 2,000 tables, the worst first");
      const names = await page.locator("#streams").getByRole("heading", { level: 3 }).allTextContents();
      is(names.length === 20 && names[0] === "shop.orders_0007" && names[3] === "shop.orders_0042", names.join());
    },
    "gets a small answer": async (page) => {
      const [response] = await Promise.all([page.waitForResponse(/api\/v1\/status/), page.waitForTimeout(0)]);
      const size = (await response.body()).length;
      is(size < 64 << 10, `${size} bytes`);
    },
    "pages and filters on the server": async (page) => {
      await button(page, "Next").click();
      await sees(page, "21 to 40 of 2,000 tables");
      await page.getByLabel("Table contains").fill("_120");
      await sees(page, "1 to 10 of 10 tables that match", "shop.orders_1204");
      await page.getByLabel("State").selectOption("waiting");
      await sees(page, "1 to 1 of 1 table that match");
      is(page.url().includes("table=_120"), "the address does not keep it");
      await page.reload();
      await sees(page, "1 to 1 of 1 table that match");
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
    "fits a phone of 360 px": (page) => fits(page, 360),
  },
  standby: {
    "says who works and who waits, and shows the one that works": (page) => sees(page, "Standby group shop", /This process waits\. a on node-1 works since .*; below is its status\./, "b on node-2 waits, ready to take over", "c on node-3 waits, and differs in BRIDGE_STREAM_ORDERS_KEY", "All 2 streams are running"),
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
    "shows what a real bridge does": (page) => sees(page, "The stream is running", "Source answers", "sqlite", "60", /in the last hour/),
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
      await sees(page, "guard tripped", "1 stream needs a person", "orders is degraded", /40 of 60 live entities/);
      await button(page, "Allow deletes …").click();
      await button(page, "Show which entities").click();
      await sees(dialogOf(page), "40 entities have no row, and would be deleted. The first 20 are:", "deleted: o21 (orders, row 21)", "Publish 40 deletes?");
      await button(page, "Publish the deletes").click();
      await button(page, "Close").click();
      await sees(page, "The stream is running", /differences: 40 deleted/);
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
