import "uplot/dist/uPlot.min.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/parts.css";
import "./styles/tables.css";
import "./styles/messages.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { applyTheme } from "./theme.ts";

applyTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
