/** Frame of a page: title, breadcrumbs, actions. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ErrorNotice, type Meaning } from "./notices.tsx";

export interface Crumb {
  label: string;
  href: string;
}

interface PageProps extends Meaning {
  title: string;
  crumbs?: readonly Crumb[];
  /** Addition to the title. */
  aside?: ComponentChildren;
  actions?: ComponentChildren;
  error?: Error | undefined;
  /** Time of the content, in milliseconds since the Unix epoch; it is out of date if there is an error. */
  seenAt?: number | undefined;
  children: ComponentChildren;
}

let isFirst = true;

export function Page(props: PageProps) {
  const { title, crumbs = [], aside, actions, error, seenAt, needs, missing, children } = props;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // After keyboard navigation from another page, the focus is at the start of this one.
    if (!isFirst) heading.current?.focus();
    isFirst = false;
  }, []);
  useEffect(() => {
    document.title = `${title} · Headrace`;
  }, [title]);
  return (
    <>
      <header class="page-head">
        <div class="titles">
          {crumbs.length > 0 && (
            <nav class="crumbs" aria-label="Breadcrumb">
              <ol>
                {crumbs.map((crumb) => (
                  <li key={crumb.href}>
                    <a href={crumb.href}>{crumb.label}</a>
                  </li>
                ))}
              </ol>
            </nav>
          )}
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {aside}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {error && <ErrorNotice error={error} seenAt={seenAt} needs={needs} missing={missing} />}
      <div class={error && seenAt !== undefined ? "page-body stale" : "page-body"}>{children}</div>
    </>
  );
}

interface PanelProps {
  title: string;
  actions?: ComponentChildren;
  /** True if the content has no margins of its own. */
  isPadded?: boolean;
  children: ComponentChildren;
}

export function Panel({ title, actions, isPadded = false, children }: PanelProps) {
  return (
    <section class="panel">
      <div class="panel-head">
        <h2>{title}</h2>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {isPadded ? <div class="panel-body">{children}</div> : children}
    </section>
  );
}
