// One object being edited: the form beside the source, what the gateway says of it, and the ways to save, discard and delete it.
import { type JSX, useEffect, useRef, useState } from "react";
import type { Json } from "../lib/api";
import { fullTime, t } from "../lib/i18n";
import { equal, type Path, pointer } from "../lib/json";
import { useKeys } from "../lib/keys";
import type { Where } from "../lib/kinds";
import { address, navigate, setGuard } from "../lib/router";
import { useMayChange, useOffers, useSession } from "../lib/session";
import { Header, Segmented } from "../ui/basics";
import { confirm } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/menu";
import { toast } from "../ui/toasts";
import { useAdded } from "./added";
import { type Draft, type Read, remove } from "./changes";
import { CodeField, type Syntax } from "./editor";
import { FormBody, placeOf } from "./form-body";
import { Identity, isId, suggestId } from "./identity";
import { Crumbs } from "./object-screen";
import { focusFault, Problems, warningsOf } from "./problems";
import { Review } from "./review";
import { find, forget, keep, restore, type Unsaved, unsavedOf } from "./unsaved";
import { type Checked, useCheck, useEditing } from "./use-draft";
import { Validity } from "./validity";

interface Props {
  where: Where;
  start: Json;
  /** The identifier that a new object is to have. */
  named?: string | null;
  base: Json | null;
  revision: number;
}

const IDLE: Checked = { state: "idle", error: null, result: null };

export function Edit({ where, start, named, base: first, revision: firstRevision }: Props): JSX.Element {
  const { kind, collection } = where;
  const [began, setBegan] = useState({ base: first, revision: firstRevision });
  const [id, setId] = useState<string[]>(first ? where.id : named ? [named] : []);
  const [tab, setTab] = useState<"form" | "source">("form");
  const [reviewing, setReviewing] = useState(false);
  const editing = useEditing(start);
  const admin = useMayChange();
  const role = useSession()?.role;
  const offers = useOffers();
  const wrong = useWrong();
  const changed = wrong.any || !equal(editing.object, began.base ?? start);
  const given = first ? id : id.some(Boolean) ? id : suggestId(kind, editing.object);
  const parts = [...collection, ...given];
  const complete = given.length > 0 && given.every(Boolean) && (first !== null || isId(kind, given.at(-1) ?? "")) && (kind.name !== "secrets" || given.length === 2);
  const draft: Draft = { kind, parts, object: editing.object, base: began.base };
  const checking = useCheck((changed || !began.base ? admin : role === "admin" && admin) && !editing.problem && !wrong.any && complete ? draft : null);
  const { checked: found, added, look } = useAdded(editing.object, checking, placeOf);
  // Of what is stored and was not touched only the gateway's own opinion counts.
  const checked = found.state === "unknown" && !changed && began.base ? IDLE : found;
  const dirty = admin && (changed || (!first && id.some((part) => part !== "" && part !== named)));
  // A new object under an identifier that is there already would replace what somebody else made.
  const taken = !began.base && checked.result?.changes.some((one) => one.action === "update" && one.resource === parts.join("/")) === true;

  const warnings = checked.state === "good" ? warningsOf(kind.name, editing.object, checked) : [];
  const unsaved = useUnsaved([...collection, ...where.id].join("/"), began.base ?? start, editing.object, id, dirty);
  useLeaveGuard(dirty, unsaved.discard);
  const review = () => {
    look();
    // What is wrong is said at its field and below the form: a dialog could only say it again.
    if (!checking.stale && (checked.state === "bad" || checked.state === "incomplete")) return focusFault();
    if (admin && complete && !taken && !wrong.any && !editing.problem && (changed || !began.base)) setReviewing(true);
  };
  useKeys({ "ctrl+s": review, "ctrl+enter": review });
  const saved = (now: Read) => {
    setReviewing(false);
    unsaved.discard();
    setBegan({ base: now.object, revision: now.revision });
    toast(t("saved", { name: given.join("/") }));
    if (!first) {
      setGuard(null);
      navigate(address(parts), { replace: true });
    }
  };
  const drop = async () => {
    if (!(await remove(kind, collection, [given.join("/")]))) return;
    setGuard(null);
    unsaved.discard();
    navigate(address(collection));
  };
  const title = first ? String(editing.object.name ?? where.id.join("/")) : t("form.new", { kind: t(kind.one) });
  const actions = !admin ? <span className="tag">{t("form.readonly")}</span> : (
    <>
      {first && <MenuButton className="button icon plain" name={t("form.actions")} label={<Icon name="more" />} items={[
        { name: "copy", label: <><Icon name="copy" />{t("action.copy")}</>, action: () => navigate(address([...collection, "+new"], { from: JSON.stringify(editing.object) })) },
        ...(kind.name === "consumers" ? [{ name: "credentials", label: <><Icon name="secrets" />{t("kind.credentials")}</>, action: () => navigate(address([...parts, "credentials"])) }] : []),
        ...(offers("changes") ? [{ name: "history", label: <><Icon name="changes" />{t("form.history")}</>, action: () => navigate(address(["changes"], { object: given.length ? parts.join("/") : undefined })) }] : []),
        { name: "delete", label: <><Icon name="trash" />{t("action.delete")}</>, danger: true, action: () => void drop() },
      ]} />}
      {changed && began.base && <button type="button" className="button hide-narrow" onClick={() => { unsaved.discard(); wrong.forget(); editing.replace(began.base ?? {}); }}>{t("form.discard")}</button>}
      <button type="button" className="button primary" disabled={!complete || taken || wrong.any || Boolean(editing.problem) || (!changed && Boolean(began.base))} onClick={review}>{t("form.review")}<kbd className="hide-narrow">Ctrl S</kbd></button>
    </>
  );
  return (
    <>
      <Header title={title} crumbs={<Crumbs where={where} />} actions={actions}><CheckState checked={checked} changed={dirty || !began.base} taken={taken} nameless={changed && given.length === 0} wrong={wrong.any} warnings={warnings.length} /></Header>
      <div className="tabs-narrow"><Segmented label={t("form.view")} value={tab} options={[["form", t("form.form")], ["source", t("form.source")]]} onChange={setTab} /></div>
      <div className="work" data-tab={tab}>
        <div className="form">
          <div className="form-fields">
            {unsaved.found && <Found unsaved={unsaved.found} onDiscard={unsaved.discard} onRestore={() => {
              if (!unsaved.found) return;
              editing.replace(restore(editing.object, unsaved.found));
              if (!first) setId(unsaved.found.id);
              unsaved.answered();
            }} />}
            {kind.name === "ssls" && <Validity cert={editing.object.cert} />}
            {!first && <Identity kind={kind} id={id} suggested={suggestId(kind, editing.object)} onChange={(next) => { setId(next); if (kind.idField === "username") editing.set(["username"], next[0]); }} />}
            <FormBody key={wrong.turn} onWrong={wrong.tell} where={where} id={given} editing={editing} checked={checked} saved={began.base !== null} onAdded={added} disabled={!admin || Boolean(editing.problem)} />
          </div>
          <Problems checked={checked} object={editing.object} syntax={editing.problem ? t("form.syntax", { line: editing.problem.line }) : null} taken={taken ? parts : null} warnings={warnings} />
        </div>
        <div className="source">
          <div className="source-bar">
            <Segmented<Syntax> label={t("form.syntax.choose")} value={editing.syntax} options={[["json", "JSON"], ["yaml", "YAML"]]} onChange={editing.choose} />
            <span className="soft small cut">{editing.problem ? <span className="bad">{t("form.line", { line: editing.problem.line })}: {editing.problem.text}</span> : t("form.instep")}</span>
          </div>
          <CodeField text={editing.text} syntax={editing.syntax} label={t("form.source.label", { name: title })} readOnly={!admin} problem={editing.problem} onChange={editing.type} />
        </div>
      </div>
      {reviewing && <Review draft={draft} revision={began.revision} onClose={() => setReviewing(false)} onSaved={saved} onMerged={(merged, theirs) => { editing.replace(merged); setBegan({ base: theirs.object, revision: theirs.revision }); }} />}
    </>
  );
}

/** What an earlier session left of this place, until the user says what to do with it. */
function useUnsaved(place: string, base: Json, object: Json, id: string[], dirty: boolean) {
  const who = useSession()?.name ?? null;
  const [found, setFound] = useState<Unsaved | null>(() => find(who, place));
  useEffect(() => {
    if (dirty) keep(who, place, unsavedOf(base, object, id));
    else if (!found) forget(who, place);
  }, [who, place, base, object, id, dirty, found]);
  return { found, answered: () => setFound(null), discard: () => { setFound(null); forget(who, place); } };
}

function Found({ unsaved, onRestore, onDiscard }: { unsaved: Unsaved; onRestore: () => void; onDiscard: () => void }): JSX.Element {
  return (
    <div className="problems">
      <div className="notice warn" role="alert">
        <Icon name="warning" />
        <div className="grow"><p>{t("unsaved.found", { time: fullTime(unsaved.at) })}</p>{unsaved.short && <p className="small">{t("unsaved.short")}</p>}</div>
        <button type="button" className="button" onClick={onRestore}>{t("unsaved.restore")}</button>
        <button type="button" className="button" onClick={onDiscard}>{t("form.discard")}</button>
      </div>
    </div>
  );
}

function useLeaveGuard(dirty: boolean, onLeave: () => void): void {
  const leaving = useRef(onLeave);
  leaving.current = onLeave;
  useEffect(() => {
    if (!dirty) return;
    setGuard((go) => {
      void confirm({ title: t("leave.title"), text: <p>{t("leave.text")}</p>, action: t("leave.action"), danger: true }).then((yes) => {
        if (!yes) return;
        setGuard(null);
        leaving.current();
        go();
      });
      return false;
    });
    const unload = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", unload);
    return () => {
      setGuard(null);
      removeEventListener("beforeunload", unload);
    };
  }, [dirty]);
}

/** Fields whose text is no value. A new turn shows all fields as the object has them. */
function useWrong() {
  const [places, setPlaces] = useState<ReadonlySet<string>>(new Set());
  const [turn, setTurn] = useState(0);
  return {
    any: places.size > 0, turn, forget: () => setTurn(turn + 1),
    tell: (path: Path, wrong: boolean) => setPlaces((before) => {
      const place = pointer(path);
      if (before.has(place) === wrong) return before;
      return new Set(wrong ? [...before, place] : [...before].filter((one) => one !== place));
    }),
  };
}

function CheckState({ checked, changed, taken, nameless, wrong, warnings }: { checked: Checked; changed: boolean; taken: boolean; nameless: boolean; wrong: boolean; warnings: number }): JSX.Element | null {
  if (taken) return <span className="tag bad" role="status">{t("check.taken")}</span>;
  if (nameless) return <span className="tag" role="status">{t("check.nameless")}</span>;
  // What is stored is only worth a word where something is wrong with it.
  if (!changed && !taken && warnings === 0 && checked.state !== "bad") return null;
  if (wrong) return <span className="tag bad" role="status">{t("check.bad")}</span>;
  if (checked.state === "good" && warnings > 0) return <span className="tag warn" role="status">{t("check.warned", { n: warnings })}</span>;
  const changes = checked.result?.changes.reduce((sum, one) => sum + (one.diff?.length ?? 0), 0) ?? 0;
  switch (checked.state) {
    case "good": return <span className="tag ok hide-narrow" role="status">{changed && changes > 0 ? t("check.good.n", { n: changes }) : t("check.good")}</span>;
    case "bad": return <span className="tag bad" role="status">{t("check.bad")}</span>;
    case "incomplete": return <span className="tag" role="status">{t("check.incomplete")}</span>;
    case "checking": return <span className="soft small hide-narrow" role="status">{t("check.checking")}</span>;
    default: return null;
  }
}
