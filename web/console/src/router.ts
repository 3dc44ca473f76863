/** Where one is: kept in the fragment, so that the server has one page and its paths stay those of its interface. */

import { useLayoutEffect, useState } from "preact/hooks";

export interface Place {
  /** Parts of the path, decoded. */
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
  // Before anything can be seen: who goes on at once is not to be missed.
  useLayoutEffect(() => {
    const moved = () => setPlace(current());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return place;
}

/** The address of a place, for links. */
export function to(...parts: (string | number)[]): string {
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

export function go(...parts: (string | number)[]): void {
  location.hash = to(...parts);
}
