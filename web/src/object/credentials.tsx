// How a consumer identifies itself, on its page: the credentials are objects of their own.
import { useQuery } from "@tanstack/react-query";
import type { JSX } from "react";
import { ApiError, type Entry, request } from "../lib/api";
import { t } from "../lib/i18n";
import { apiPath, idOfKey, pluginsOf } from "../lib/kinds";
import { address } from "../lib/router";
import { useMayChange } from "../lib/session";
import { Failure, Link, Skeleton, Tags } from "../ui/basics";
import { Icon } from "../ui/icons";

/** What most want: a key, which is typed into the form. */
const KEY = JSON.stringify({ plugins: { "key-auth": { key: "" } } });

/** `consumer`: null until it is saved. */
export function Credentials({ consumer }: { consumer: string | null }): JSX.Element {
  const admin = useMayChange();
  const collection = ["consumers", consumer ?? "", "credentials"];
  const found = useQuery({ queryKey: ["credentials", consumer], enabled: consumer !== null, retry: false, queryFn: () => credentialsOf(collection) });
  return (
    <section aria-label={t("kind.credentials")}>
      <h2 className="section-title">{t("kind.credentials")}</h2>
      <div className="plugins">
        {consumer === null && <p className="soft small pad-top">{t("credentials.later")}</p>}
        {found.isLoading && <Skeleton rows={1} />}
        {found.error && <Failure error={found.error} />}
        {found.data?.length === 0 && <p className="soft small pad-top">{t("credentials.none")}</p>}
        {found.data?.map((entry) => {
          const id = idOfKey(entry.key, collection);
          return <p key={id} className="row credential"><Link to={address([...collection, id])}>{typeof entry.value.name === "string" && entry.value.name ? entry.value.name : id}</Link><Tags values={pluginsOf(entry.value)} /></p>;
        })}
        {consumer !== null && admin && (
          <p className="row wrap">
            <Link className="button" to={address([...collection, "+new"], { from: KEY })}><Icon name="plus" size={12} />{t("credentials.key")}</Link>
            <Link className="button" to={address([...collection, "+new"])}><Icon name="plus" size={12} />{t("form.add", { name: t("kind.credential") })}</Link>
          </p>
        )}
      </div>
    </section>
  );
}

/** As in APISIX, the list of a consumer without credentials is 404. */
async function credentialsOf(collection: string[]): Promise<Entry[]> {
  try {
    const { list } = await request<{ list?: Entry[] }>(apiPath(collection));
    return Array.isArray(list) ? list : [];
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return [];
    throw error;
  }
}
