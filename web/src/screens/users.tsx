// Who may sign in with a password. Nobody but an admin gets here, and no password is ever shown.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useState } from "react";
import { request } from "../lib/api";
import { ago, fullTime, type Key, t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { queries } from "../lib/query";
import { useSession } from "../lib/session";
import { Empty, explainError, Failure, Header, Skeleton, Wide } from "../ui/basics";
import { confirm } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/menu";
import { toast } from "../ui/toasts";
import { type User, UserDialog, writeUser } from "./user-dialog";

const KEY = ["users"];
const refresh = () => void queries.invalidateQueries({ queryKey: KEY });

export function UsersScreen(): JSX.Element {
  const admin = useSession()?.role === "admin";
  const users = useQuery({ queryKey: KEY, queryFn: () => request<{ list: User[] }>("/users"), enabled: admin, retry: false });
  const [editing, setEditing] = useState<User | "new" | null>(null);
  const kept = users.data !== undefined;
  const create = () => { if (kept) setEditing("new"); };
  useKeys({ n: create });
  const button = <button type="button" className="button primary" onClick={create}><Icon name="plus" />{t("users.new")}<kbd className="hide-narrow">N</kbd></button>;
  return (
    <>
      <Header title={t("users.title")} actions={kept ? button : undefined}>{kept && <span className="soft" data-testid="count">{users.data.list.length}</span>}</Header>
      <div className="scroll">
        {!admin && <Empty icon="consumers" title={t("users.title")}>{t("users.notyou")}</Empty>}
        {users.isLoading && <Skeleton />}
        {users.error && <div className="pad"><Failure error={users.error} retry={() => void users.refetch()} /></div>}
        {users.data?.list.length === 0 && <Empty icon="consumers" title={t("users.none")} actions={button}>{t("users.text")}</Empty>}
        {users.data && users.data.list.length > 0 && <div className="pad column"><p className="soft">{t("users.text")}</p><div className="pad-top"><List users={users.data.list} onEdit={setEditing} /></div></div>}
      </div>
      {editing !== null && <UserDialog user={editing === "new" ? null : editing} onClose={() => setEditing(null)} onDone={() => { setEditing(null); refresh(); }} />}
    </>
  );
}

function List({ users, onEdit }: { users: User[]; onEdit: (user: User) => void }): JSX.Element {
  const own = useSession();
  const isOwn = (user: User) => own?.user === true && own.name === user.name;
  return (
    <Wide label={t("users.title")}>
      <table className="plain-table">
        <thead><tr><th scope="col">{t("login.user")}</th><th scope="col">{t("users.role")}</th><th scope="col">{t("field.update_time")}</th><th scope="col"><span className="visually-hidden">{t("form.actions")}</span></th></tr></thead>
        <tbody>
          {users.map((user) => (
            <tr key={user.name}>
              <th scope="row">{user.name}{isOwn(user) && <span className="soft"> · {t("users.you")}</span>}</th>
              <td>{t(`users.role.${user.role}` as Key)}{user.role === "viewer" && user.consumer_names === true && <span className="soft small"> · {t("users.consumers.short")}</span>}</td>
              <td title={fullTime(Date.parse(user.updated))}><span className="soft">{ago(Date.parse(user.updated))}</span></td>
              <td className="number">
                <MenuButton className="button icon plain" name={t("users.actions", { name: user.name })} label={<Icon name="more" />} items={[
                  { name: "edit", label: <><Icon name="consumers" />{t("users.edit")}</>, action: () => onEdit(user) },
                  { name: "out", label: <><Icon name="out" />{t("users.everywhere")}</>, action: () => void signOutEverywhere(user) },
                  { name: "delete", label: <><Icon name="trash" />{t("action.delete")}</>, danger: true, action: () => void remove(user, isOwn(user)) },
                ]} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

async function attempt(work: () => Promise<unknown>, done: string): Promise<void> {
  try {
    await work();
    toast(done);
  } catch (error) {
    toast(explainError(error).message, { bad: true });
  }
  refresh();
}

/** A user that is written has no sessions any more, although nothing of it differs. */
async function signOutEverywhere(user: User): Promise<void> {
  const { name } = user;
  if (!(await confirm({ title: t("users.everywhere.title", { name }), text: <p>{t("users.everywhere.text")}</p>, action: t("users.everywhere"), danger: true }))) return;
  await attempt(async () => writeUser(await request<User>(`/users/${encodeURIComponent(name)}`), {}), t("users.everywhere.done", { name }));
}

async function remove({ name }: User, own: boolean): Promise<void> {
  if (!(await confirm({ title: t("users.delete.title", { name }), text: <p>{t(own ? "users.delete.own" : "users.delete.text")}</p>, action: t("action.delete"), danger: true }))) return;
  await attempt(() => request(`/users/${encodeURIComponent(name)}`, { method: "DELETE" }), t("deleted.one", { name }));
}
