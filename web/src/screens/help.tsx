import type { JSX } from "react";
import { type Key, t } from "../lib/i18n";
import { Dialog } from "../ui/dialog";

const GROUPS: [Key, [string, Key][]][] = [
  ["help.everywhere", [["Ctrl K", "palette.title"], ["?", "foot.keys"], ["Ctrl Z", "help.undo"], ["G H", "nav.overview"], ["G T", "nav.traffic"], ["G E", "nav.explain"], ["G C", "nav.changes"], ["G P", "nav.plugins"], ["G A", "users.title"], ["G R", "kind.routes"], ["G S", "kind.services"], ["G U", "kind.upstreams"], ["G O", "kind.consumers"], ["G L", "kind.ssls"], ["G G", "kind.global_rules"], ["G M", "kind.stream_routes"]]],
  ["help.lists", [["J  K", "help.move"], ["/", "help.search"], ["O", "help.open"], ["E  Enter", "action.edit"], ["N", "help.new"], ["X", "help.choose"], ["Del", "action.delete"], ["Esc", "action.close"]]],
  ["help.forms", [["Ctrl S", "form.review"], ["Ctrl ↵", "review.save"], ["Ctrl F", "help.find"], ["Ctrl ]", "help.indent"]]],
];

export function Help({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title={t("foot.keys")} size="wide" onClose={onClose}>
      <div className="help">
        {GROUPS.map(([title, keys]) => (
          <section key={title}>
            <h3 className="section-title">{t(title)}</h3>
            <dl>{keys.map(([key, what]) => <div key={key}><dt>{key.split(/\s+/).map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd>{t(what)}</dd></div>)}</dl>
          </section>
        ))}
      </div>
      <p className="small" style={{ marginTop: 16 }}><a href="/ui/licences.md" target="_blank" rel="noreferrer">{t("help.licences")}</a></p>
    </Dialog>
  );
}
