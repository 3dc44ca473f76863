/** Shell around the pages, and routes. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { logOut, renew } from "./api/request.ts";
import { useClusterProblems } from "./cluster_problems.ts";
import mark from "./mark.svg";
import { Login } from "./pages/access/login.tsx";
import { Tokens } from "./pages/access/tokens.tsx";
import { UserPage } from "./pages/access/user.tsx";
import { Users } from "./pages/access/users.tsx";
import { ClientPage } from "./pages/client.tsx";
import { Clients } from "./pages/clients.tsx";
import { Cluster } from "./pages/cluster.tsx";
import { ConnectorPage } from "./pages/connectors/connector.tsx";
import { Connectors } from "./pages/connectors/list.tsx";
import { Groups } from "./pages/groups.tsx";
import { Logs } from "./pages/logs.tsx";
import { Overview } from "./pages/overview.tsx";
import { Settings } from "./pages/settings.tsx";
import { StreamPage } from "./pages/stream.tsx";
import { Streams } from "./pages/streams.tsx";
import { TopicPage } from "./pages/topics/topic.tsx";
import { type Place, to, usePlace } from "./router.ts";
import { onSessionChange, type Session, session } from "./session.ts";
import { chooseTheme, chosenTheme, type Theme } from "./theme.ts";
import { Toasts } from "./ui/notices.tsx";
import { Page } from "./ui/page.tsx";

const NAVIGATION = [
  [
    ["", "Overview"],
    ["streams", "Streams"],
    ["groups", "Consumer groups"],
    ["clients", "Clients"],
    ["connectors", "Connectors"],
    ["cluster", "Cluster"],
  ],
  [
    ["users", "Users"],
    ["tokens", "Access tokens"],
  ],
  [
    ["logs", "Log"],
    ["settings", "Settings"],
  ],
] as const;

export function App() {
  const [who, setWho] = useState(session);
  useEffect(() => onSessionChange(() => setWho(session())), []);
  useRenewal(who);
  return (
    <>
      {who ? <Shell who={who} /> : <Login />}
      <Toasts />
    </>
  );
}

/** Renew the token before it expires, as long as the page is open. */
function useRenewal(who: Session | null): void {
  useEffect(() => {
    if (who === null) return;
    const leftMs = who.expiresAt * 1000 - Date.now();
    // A timer holds 31 bits; a token with a longer lifetime is renewed at that limit.
    const timer = setTimeout(() => void renew(who), Math.min(leftMs * 0.8, 2 ** 31 - 1));
    return () => clearTimeout(timer);
  }, [who]);
}

function Shell({ who }: { who: Session }) {
  const place = usePlace();
  const main = useRef<HTMLElement>(null);
  const [isOpen, setOpen] = useState(false);
  const [theme, setTheme] = useState<Theme>(chosenTheme);
  const here = place.parts[0] ?? "";
  const problems = useClusterProblems();
  useEffect(() => setOpen(false), [place]);
  const skip = (event: MouseEvent) => {
    // The fragment selects the page, so the link must not change it.
    event.preventDefault();
    main.current?.focus();
  };
  return (
    <div class="shell">
      {/* biome-ignore lint/a11y/useValidAnchor: it leads to a place on this page */}
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <div class="side">
        <div class="side-top">
          <a class="brand" href={to()}>
            <img src={mark} alt="" />
            Headrace
          </a>
          <button
            type="button"
            class="button small menu-button"
            aria-expanded={isOpen}
            aria-controls="side-body"
            onClick={() => setOpen(!isOpen)}
          >
            Menu
          </button>
        </div>
        <div id="side-body" class={isOpen ? "side-body open" : "side-body"}>
          <nav class="nav" aria-label="Pages">
            <ul>
              {NAVIGATION.map((group) =>
                group.map(([path, label], index) => (
                  <li key={path} class={index === 0 ? "nav-group" : undefined}>
                    <a href={path ? to(path) : to()} aria-current={here === path ? "page" : undefined}>
                      {label}
                      {path === "cluster" && problems.length > 0 && (
                        <span class="badge warn">
                          {problems.length}
                          <span class="visually-hidden">
                            {" "}
                            {problems.length === 1 ? "problem" : "problems"}
                          </span>
                        </span>
                      )}
                    </a>
                  </li>
                )),
              )}
            </ul>
          </nav>
          <div class="side-foot">
            <div class="field">
              <label for="theme">Colours</label>
              <select
                id="theme"
                value={theme}
                onChange={(event) => {
                  const chosen = event.currentTarget.value as Theme;
                  chooseTheme(chosen);
                  setTheme(chosen);
                }}
              >
                <option value="system">As the system</option>
                <option value="light">Light</option>
                <option value="dark">Dark</option>
              </select>
            </div>
            <div class="who quiet">
              Logged in as <strong>{who.username}</strong>
            </div>
            <button type="button" class="button small" onClick={() => void logOut().catch(() => {})}>
              Log out
            </button>
          </div>
        </div>
      </div>
      <main ref={main} id="main" class="main" tabIndex={-1}>
        {/* Remount the page for another address, so that no state is carried over. */}
        <div key={place.parts.slice(0, 4).join("/")} style={{ display: "contents" }}>
          {pageOf(place)}
        </div>
      </main>
    </div>
  );
}

function pageOf({ parts }: Place): JSX.Element {
  const [first, second, third, fourth, fifth] = parts;
  switch (first) {
    case undefined:
      return <Overview />;
    case "streams":
      if (second === undefined) return <Streams />;
      if (third === "topics" && fourth !== undefined) {
        return <TopicPage stream={second} topic={fourth} tab={fifth ?? "messages"} />;
      }
      return <StreamPage id={second} />;
    case "clients":
      return second === undefined ? <Clients /> : <ClientPage id={second} />;
    case "connectors":
      return second === undefined ? <Connectors /> : <ConnectorPage id={second} />;
    case "cluster":
      return <Cluster />;
    case "groups":
      return <Groups />;
    case "users":
      return second === undefined ? <Users /> : <UserPage id={second} />;
    case "tokens":
      return <Tokens />;
    case "logs":
      return <Logs />;
    case "settings":
      return <Settings />;
    default:
      return (
        <Page title="There is no such page">
          <p>
            <a href={to()}>To the overview</a>
          </p>
        </Page>
      );
  }
}
