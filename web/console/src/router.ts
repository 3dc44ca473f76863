/** Router on the URL fragment: the server has a single page, and its other paths stay free for the API. */

import { useLayoutEffect, useState } from "preact/hooks";

export interface Place {
  /** Path segments, decoded. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

function current(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    parts: path.split("/").filter(Boolean).map(decodeURIComponent),
    query: new URLSearchParams(query),
  };
}

export function usePlace(): Place {
  const [place, setPlace] = useState(current);
  // Layout effect: navigation directly after the first render must not be missed.
  useLayoutEffect(() => {
    const moved = () => setPlace(current());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return place;
}

/** URL of a page, for links. */
export function to(...parts: (string | number)[]): string {
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

export function go(...parts: (string | number)[]): void {
  location.hash = to(...parts);
}
