import { defineConfig } from "vite";

const SERVER = "http://127.0.0.1:3000";
const INTERFACE = [
  "clients",
  "cluster",
  "consumer-groups",
  "logs",
  "personal-access-tokens",
  "settings",
  "stats",
  "streams",
  "users",
];

export default defineConfig({
  // During development, requests other than pages go to a server on its default port.
  server: {
    proxy: {
      ...Object.fromEntries(INTERFACE.map((path) => [`/${path}`, SERVER])),
      "/ws": { target: SERVER, ws: true },
    },
  },
  build: {
    outDir: "../../services/gateway/src/headrace_gateway/console/static",
    emptyOutDir: true,
    // The server lets clients cache this directory forever: file names contain a hash of the content.
    assetsDir: "console",
    // The content security policy allows no data URLs.
    assetsInlineLimit: 0,
    modulePreload: false,
    target: "es2023",
    // Notices of bundled packages, as required by their licences.
    license: { fileName: "console/licenses.md" },
  },
});
