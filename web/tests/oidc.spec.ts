// Signing in with a real OpenID provider, and what a browser sees where that fails. Forged answers and tokens: tests/e2e/operations/oidc.rs.
import type { Page } from "@playwright/test";
import { test as base, expect, type Gateway, start } from "./fixtures";
import { CLIENT, providerPlace, type TestProvider } from "./provider";

/** A gateway with a provider of its own: the other tests sign in without one. */
const test = base.extend<object, { own: { gateway: Gateway; provider: TestProvider } }>({
  own: [async ({}, use) => {
    const { issuer, serve } = await providerPlace();
    const served: TestProvider[] = [];
    const { gateway, stop } = await start((admin) => {
      const back = `http://127.0.0.1:${admin}/ui/oidc`;
      served.push(serve(back));
      return `    oidc:
      discovery: ${issuer}/.well-known/openid-configuration
      client_id: ${CLIENT.id}
      client_secret: ${CLIENT.secret}
      scopes: [openid, email, groups]
      display_name: Example
      redirect_uris: ["${back}"]
      roles:
        - {value: gateway-admins, role: admin}
        - {value: developers, role: editor}
`;
    });
    const [provider] = served;
    if (!provider) throw new Error("no provider");
    await use({ gateway, provider });
    await stop();
    await provider.stop();
  }, { scope: "worker" }],
});

const enter = async (page: Page, gateway: Gateway, path = "/") => {
  await page.context().clearCookies();
  await page.goto(gateway.console + path);
  await page.getByRole("button", { name: "Sign in with Example" }).click();
};

test("a person of the provider comes back to where they were, with their role and name", async ({ page, own: { gateway, provider } }) => {
  provider.person = "alice";
  await gateway.put("/routes/1", { uri: "/1", name: "one", plugins: { mocking: { response_example: "one" } } });
  await enter(page, gateway, "/routes/1");
  await expect(page.getByRole("heading", { level: 1, name: "one" })).toBeVisible();
  expect(page.url()).toBe(`${gateway.console}/routes/1`);
  await page.getByLabel("Name", { exact: true }).fill("first");
  await page.keyboard.press("Control+S");
  await page.getByRole("dialog").getByRole("button", { name: /Save/ }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.goto(`${gateway.console}/changes`);
  await expect(page.locator(".history li").first()).toContainText("oidc:alice@example.com");
});

test("neither the code nor the state stays in the browser", async ({ page, own: { gateway, provider } }) => {
  provider.person = "alice";
  await enter(page, gateway);
  await expect(page.locator("main.page")).toBeVisible();
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, document.referrer]));
  expect(stored).not.toMatch(/code=|state=/);
  const cookies = await page.context().cookies(gateway.admin + "/apisix/admin/sessions");
  const ours = cookies.filter((cookie) => cookie.name.startsWith("tidegate_session_"));
  expect(ours.map((cookie) => [cookie.name.endsWith("_login"), cookie.httpOnly, cookie.sameSite])).toEqual([[false, true, "Strict"]]);
  await page.goBack();
  await expect(page).not.toHaveURL(/code=/);
});

test("roles are those of the groups", async ({ page, own: { gateway, provider } }) => {
  provider.person = "bob";
  await enter(page, gateway, "/routes");
  await expect(page.locator("main.page")).toBeVisible();
  const status = await page.evaluate(async () => {
    const ask = async (path: string) => (await fetch(`/apisix/admin${path}`, { headers: { "X-CSRF-Token": localStorage.getItem("tidegate.token") ?? "" } })).status;
    return [await ask("/routes"), await ask("/users"), await ask("/export")];
  });
  expect(status).toEqual([200, 403, 403]);
});

for (const [person, why, text] of [
  ["carol", "in no group that has a role", "no entry of deployment.admin.oidc.roles fits"],
  ["dave", "with an address that is not verified", "has not verified the email alice@example.com"],
] as const) {
  test(`a person ${why} is refused, and told why`, async ({ page, own: { gateway, provider } }) => {
    provider.person = person;
    await enter(page, gateway);
    await expect(page.getByRole("alert")).toContainText(text);
    expect(page.url()).toBe(`${gateway.console}/oidc`);
    await page.goto(`${gateway.console}/routes`);
    await expect(page.locator("#key")).toBeVisible();
  });
}

test("a person who says no at the provider is back at the sign-in page", async ({ page, own: { gateway, provider } }) => {
  provider.person = null;
  await enter(page, gateway);
  await expect(page.getByRole("alert")).toContainText("access_denied: the person said no");
});

test("an answer that this browser did not ask for signs in no one", async ({ page, own: { gateway, provider }, browser }) => {
  provider.person = "alice";
  // Alice's answer, held before her browser takes it to the Admin API.
  let answer = "";
  page.on("request", (request) => { if (request.url().includes("/ui/oidc?")) answer = request.url(); });
  await page.route("**/apisix/admin/sessions", (route) => (route.request().method() === "POST" ? route.abort() : route.continue()));
  await enter(page, gateway);
  await expect.poll(() => answer).toMatch(/code=/);
  const other = await (await browser.newContext()).newPage();
  await other.goto(answer);
  await expect(other.getByRole("alert")).toContainText("no sign-in of this browser is under way");
  await other.context().close();
  await page.unroute("**/apisix/admin/sessions");
  await page.goto(answer);
  await expect(page.locator("main.page")).toBeVisible();
  // And no second time.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.goto(answer);
  await expect(page.getByRole("alert")).toContainText("no sign-in of this browser is under way");
});

test("signing out ends the session, and the next sign-in is another one", async ({ page, own: { gateway, provider } }) => {
  provider.person = "alice";
  await enter(page, gateway);
  await expect(page.locator("main.page")).toBeVisible();
  const cookie = async () => (await page.context().cookies(`${gateway.admin}/apisix/admin/routes`)).map((one) => `${one.name}=${one.value}`).join("; ");
  const [token, first] = [await page.evaluate(() => localStorage.getItem("tidegate.token") ?? ""), await cookie()];
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.locator("#key")).toBeVisible();
  const old = await fetch(`${gateway.admin}/apisix/admin/routes`, { headers: { Cookie: first, "X-CSRF-Token": token } });
  expect(old.status).toBe(401);
  await enter(page, gateway);
  await expect(page.locator("main.page")).toBeVisible();
  expect(await cookie()).not.toBe(first);
});

test("the provider is offered in Chinese, and keys still sign in beside it", async ({ page, own: { gateway } }) => {
  await page.addInitScript(() => { localStorage.setItem("tidegate.language", "zh"); });
  await page.goto(`${gateway.console}/`);
  await expect(page.getByRole("button", { name: "通过 Example 登录" })).toBeVisible();
  await page.locator("#key").fill("console-tests-admin-key");
  await page.keyboard.press("Enter");
  await expect(page.locator("main.page")).toBeVisible();
});
