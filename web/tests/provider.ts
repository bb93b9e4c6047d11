// A certified OpenID provider in this process (oidc-provider), whose people sign in without being asked.
import { createServer, type Server } from "node:http";
import Provider from "oidc-provider";

export const CLIENT = { id: "console", secret: "the secret of the console" };

/** Claims of each person; `sub` is the name. */
export const PEOPLE: Record<string, Record<string, unknown>> = {
  alice: { email: "alice@example.com", email_verified: true, groups: ["staff", "gateway-admins"] },
  bob: { email: "bob@example.com", email_verified: true, groups: ["developers"] },
  carol: { email: "carol@example.com", email_verified: true, groups: ["staff"] },
  dave: { email: "alice@example.com", email_verified: false, groups: ["gateway-admins"] },
};

export interface TestProvider {
  issuer: string;
  /** Who is signed in there when a browser comes; null: the person refuses. */
  person: string | null;
  stop: () => Promise<void>;
}

/** A place to serve at, which a gateway can name before the provider knows the gateway. */
export async function providerPlace(): Promise<{ issuer: string; serve: (redirectUri: string) => TestProvider }> {
  const server: Server = createServer();
  await new Promise<void>((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  const at = server.address();
  if (typeof at !== "object" || !at) throw new Error("no port");
  const issuer = `http://127.0.0.1:${at.port}`;
  return { issuer, serve: (redirectUri) => serve(server, issuer, redirectUri) };
}

function serve(server: Server, issuer: string, redirectUri: string): TestProvider {
  const provider = new Provider(issuer, {
    clients: [{ client_id: CLIENT.id, client_secret: CLIENT.secret, redirect_uris: [redirectUri], grant_types: ["authorization_code"], response_types: ["code"] }],
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    scopes: ["openid", "email", "groups"],
    pkce: { required: () => true },
    cookies: { keys: ["a key of this test"] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_: unknown, interaction: { uid: string }) => `/interaction/${interaction.uid}` },
    findAccount: (_: unknown, sub: string) => (PEOPLE[sub] ? { accountId: sub, claims: () => ({ sub, ...PEOPLE[sub] }) } : undefined),
  });
  const found: TestProvider = { issuer, person: "alice", stop: () => new Promise((resolve) => { server.closeAllConnections(); server.close(() => resolve()); }) };
  const answer = provider.callback();
  server.on("request", (request, response) => {
    if (!request.url?.startsWith("/interaction/")) return void answer(request, response);
    const interact = async () => {
      const { params, grantId } = await provider.interactionDetails(request, response);
      const { person } = found;
      if (!person) return provider.interactionFinished(request, response, { error: "access_denied", error_description: "the person said no" });
      const grant = (grantId ? await provider.Grant.find(grantId) : undefined) ?? new provider.Grant({ accountId: person, clientId: String(params.client_id) });
      grant.addOIDCScope(String(params.scope));
      return provider.interactionFinished(request, response, { login: { accountId: person, remember: false }, consent: { grantId: await grant.save() } });
    };
    interact().catch((error: unknown) => { response.statusCode = 500; response.end(String(error)); });
  });
  return found;
}
