// What comes one after the other: the plugins that a request meets and where it ends, or the changes of an object.
import type { JSX } from "react";
import { t } from "../lib/i18n";
import { Link } from "./basics";
import { Icon } from "./icons";

export interface LaneStep {
  name: string;
  icon: string;
  note?: string;
  to?: string;
  off?: boolean;
}

export function Lane({ steps }: { steps: LaneStep[] }): JSX.Element {
  if (steps.length === 0) return <p className="soft small">{t("lane.none")}</p>;
  return (
    <ol className="lane">
      {steps.map((step, i) => (
        <li key={`${step.name} ${i}`} className={step.off ? "off" : ""}>
          <Icon name={step.icon} size={14} />
          {step.to ? <Link to={step.to} className="cut">{step.name}</Link> : <span className="cut">{step.name}</span>}
          {step.note && <span className="note cut">{step.note}</span>}
        </li>
      ))}
    </ol>
  );
}
