// Why an object was not deleted: what uses it, with links.
import type { JSX } from "react";
import { ApiError } from "../lib/api";
import { t } from "../lib/i18n";
import { locate } from "../lib/kinds";
import { findUsers, refersTo } from "../lib/users";
import { dismiss, tell } from "../ui/dialog";
import { ObjectName } from "../ui/diff";

/** So many are listed; the others are counted. */
const SHOWN = 20;

/** Shows who uses the objects that the gateway would not delete; false where that is not why. */
export async function showUsers(error: unknown): Promise<boolean> {
  if (!(error instanceof ApiError)) return false;
  const used = [...new Set(error.faults.filter((fault) => /still using it/.test(fault.error)).map((fault) => (fault.path ?? "").replace(/^\//, "")))].filter((one) => locate(one.split("/"))?.id.length);
  if (used.length === 0) return false;
  const users = await Promise.all(used.map((one) => {
    const [kind = "", ...id] = one.split("/").map(decodeURIComponent);
    return findUsers((value) => refersTo(value, kind, id.join("/")));
  }));
  const title = used.length === 1 ? t("inuse.title", { name: used[0] ?? "" }) : t("inuse.many.title");
  await tell({ title, text: <>{used.map((name, i) => <Users key={name} name={name} users={users[i] ?? []} />)}</> });
  return true;
}

function Users({ name, users }: { name: string; users: string[] }): JSX.Element {
  return (
    <section>
      <p>{t("inuse.text", { name, n: users.length })}</p>
      <ul className="users-of">{users.slice(0, SHOWN).map((one) => <li key={one} onClickCapture={dismiss}><ObjectName resource={one} /></li>)}</ul>
      {users.length > SHOWN && <p className="soft">{t("changes.more", { n: users.length - SHOWN })}</p>}
    </section>
  );
}
