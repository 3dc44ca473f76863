/** Line plot over time. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { onThemeChange } from "../theme.ts";

export interface Line {
  label: string;
  /** CSS custom property with the colour of the line. */
  colour: string;
}

interface PlotProps {
  title: string;
  /** Seconds, then one row per line; null for missing values. */
  data: readonly [number[], ...(number | null)[][]];
  lines: readonly Line[];
  format: (value: number) => string;
  /** Time range in seconds. */
  window: number;
  height?: number;
  /** Ticks at powers of two instead of ten. */
  isBinary?: boolean;
}

const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
/** Seconds are shown on the axis of a short time only. */
const SHORT_SECONDS = 600;

function clockOf(seconds: number, window: number): string {
  return new Date(seconds * 1000).toTimeString().slice(0, window > SHORT_SECONDS ? 5 : 8);
}

export function Plot({ title, data, lines, format, window, height = 150, isBinary = false }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const newest = useRef(data);
  newest.current = data;

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        options(element, { lines, format, window, height, isBinary }),
        newest.current as uPlot.AlignedData,
        element,
      );
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const forget = onThemeChange(draw);
    return () => {
      forget();
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [lines, format, window, height, isBinary]);

  useEffect(() => {
    plot.current?.setData(data as uPlot.AlignedData);
  }, [data]);

  const last = lines.map((line, index) => {
    const value = data[index + 1]?.at(-1);
    return `${lines.length > 1 ? `${line.label} ` : ""}${value == null ? "–" : format(value)}`;
  });
  return (
    <section class="panel">
      <div class="panel-head">
        <h2>{title}</h2>
        <span class="plot-now">{last.join(" · ")}</span>
      </div>
      <div ref={place} class="plot" role="img" aria-label={`${title}, now ${last.join(", ")}`} />
    </section>
  );
}

type Shape = Required<Pick<PlotProps, "lines" | "format" | "window" | "height" | "isBinary">>;

function options(element: HTMLElement, { lines, format, window, height, isBinary }: Shape): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => resolved(element, style.getPropertyValue(name));
  const quiet = colour("--text-quiet");
  const grid = { stroke: colour("--line"), width: 1 };
  const font = `11px ${style.fontFamily}`;
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: {
      x: { range: (_, __, max) => [(max ?? 0) - window, max ?? 0] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.15 : 1] },
    },
    axes: [
      {
        stroke: quiet,
        font,
        grid: { show: false },
        ticks: { show: false },
        size: 26,
        space: 80,
        values: (_, ticks) => ticks.map((tick) => clockOf(tick, window)),
      },
      {
        stroke: quiet,
        font,
        grid,
        ticks: { show: false },
        size: 64,
        space: 34,
        ...(isBinary ? { incrs: BINARY_STEPS } : {}),
        values: (_, ticks) => ticks.map(format),
      },
    ],
    series: [
      {},
      ...lines.map((line, index) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 1.6,
        points: { show: false },
        ...(index === 0 ? { fill: `${colour(line.colour).replace(")", " / 12%)")}` } : {}),
      })),
    ],
  };
}

/** Resolve a colour for a canvas, which does not support `light-dark()`. */
function resolved(element: HTMLElement, value: string): string {
  const probe = document.createElement("span");
  probe.style.color = value;
  element.append(probe);
  const [red, green, blue] = getComputedStyle(probe).color.match(/[\d.]+/g) ?? ["0", "0", "0"];
  probe.remove();
  return `rgb(${red} ${green} ${blue})`;
}
