/** The frame of a page: its title, where it is, what can be done on it. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ErrorNotice } from "./notices.tsx";

export interface Crumb {
  label: string;
  href: string;
}

interface PageProps {
  title: string;
  crumbs?: readonly Crumb[];
  /** Beside the title, for what cannot be said in it. */
  aside?: ComponentChildren;
  actions?: ComponentChildren;
  error?: Error | undefined;
  children: ComponentChildren;
}

let isFirst = true;

export function Page({ title, crumbs = [], aside, actions, error, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // Who comes from another page by keyboard goes on at the beginning of this one.
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
      {error && <ErrorNotice error={error} />}
      {children}
    </>
  );
}

interface PanelProps {
  title: string;
  actions?: ComponentChildren;
  /** Whether what is inside has no margins of its own. */
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
