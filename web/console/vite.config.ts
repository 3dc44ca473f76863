import { defineConfig } from "vite";

const SERVER = "http://127.0.0.1:3000";
const INTERFACE = ["clients", "logs", "personal-access-tokens", "settings", "stats", "streams", "users"];

export default defineConfig({
  // While one works on it, everything but the pages comes from a server on its usual port.
  server: {
    proxy: {
      ...Object.fromEntries(INTERFACE.map((path) => [`/${path}`, SERVER])),
      "/ws": { target: SERVER, ws: true },
    },
  },
  build: {
    outDir: "../../services/gateway/src/headrace_gateway/console/static",
    emptyOutDir: true,
    // The server keeps what is in this folder cached for ever: names there hold a hash of the content.
    assetsDir: "console",
    // The page's policy allows no data URLs.
    assetsInlineLimit: 0,
    modulePreload: false,
    target: "es2023",
    // Notices of what is bundled, as its licences ask.
    license: { fileName: "console/licenses.md" },
  },
});
