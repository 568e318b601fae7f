// A chart with the numbers of the day under the pointer above it, and all of them in a table below.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { short } from "../text";
import { theme } from "../theme";

export interface ChartSeries {
  name: string;
  values: (number | null)[];
}

interface ChartProps {
  title: string;
  /** The labels of the points, such as days. */
  labels: string[];
  series: ChartSeries[];
  /** Bars of several series are stacked. */
  kind: "bars" | "lines";
  /** What the first column of the table is. */
  unit: string;
  format?: (value: number) => string;
  /** Distances of its lines. */
  steps?: number[];
  /** What is said of each series while nothing is pointed at, such as its sum. */
  rest?: (series: ChartSeries) => string;
}

const HEIGHT = 200;
/** Distances of the lines of a chart. None is less than 1. */
const STEPS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();
const plain = (value: number): string => value.toLocaleString("en");

export function Chart({ title, labels, series, kind, unit, format = plain, steps = STEPS, rest }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const box = place.current;
    if (!box || !labels.length) return;
    const made = draw(box, labels, series, kind, format, steps, setAt);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height: HEIGHT }));
    watch.observe(box);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [labels, series, kind, theme.value]);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const made = plot.current;
    if (!step || !made) return;
    event.preventDefault();
    const next = Math.min(Math.max((at ?? (step > 0 ? -1 : labels.length)) + step, 0), labels.length - 1);
    made.setCursor({ left: made.valToPos(next, "x"), top: 10 });
  };
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <p class="readout" aria-live="polite">
          <span class="readout-at">{at === null ? "" : labels[at]}</span>
          {series.map((each, index) => (
            <span key={each.name} class="readout-value">
              <i class={`swatch series-${index + 1}`} aria-hidden="true" />
              {each.name} <strong>{at === null ? rest?.(each) : shown(each.values[at], format)}</strong>
            </span>
          ))}
        </p>
      </figcaption>
      <div
        ref={place}
        class="plot"
        role="group"
        aria-label={`${title}. Arrow keys move through it; the table below has all numbers.`}
        tabIndex={0}
        onKeyDown={move}
      />
      <Numbers unit={unit} labels={labels} series={series} format={format} />
    </figure>
  );
}

function shown(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? "none" : format(value);
}

function Numbers({ unit, labels, series, format }: Pick<ChartProps, "unit" | "labels" | "series"> & { format: (value: number) => string }) {
  const [open, setOpen] = useState(false);
  const order = useMemo(() => labels.map((_, index) => labels.length - 1 - index), [labels]);
  return (
    <details class="numbers" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Table</summary>
      {open && (
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">{unit}</th>
                {series.map((each) => (
                  <th key={each.name} scope="col" class="amount">
                    {each.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {order.map((index) => (
                <tr key={index}>
                  <th scope="row">{labels[index]}</th>
                  {series.map((each) => (
                    <td key={each.name} class="amount">
                      {shown(each.values[index], format)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

function draw(
  box: HTMLElement,
  labels: string[],
  series: ChartSeries[],
  kind: "bars" | "lines",
  format: (value: number) => string,
  steps: number[],
  point: (at: number | null) => void,
): uPlot {
  const style = getComputedStyle(box);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const isStacked = kind === "bars";
  // The sum of a stack is drawn first, and the parts below it over it.
  const order = isStacked ? series.map((_, index) => series.length - 1 - index) : series.map((_, index) => index);
  const drawn = order.map((index) => (isStacked ? stacked(series.slice(0, index + 1)) : (series[index]?.values ?? [])));
  const axis = {
    stroke: color("--quiet"),
    font: `12px ${style.fontFamily}`,
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
  };
  const options: uPlot.Options = {
    width: box.clientWidth,
    height: HEIGHT,
    padding: [10, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, x: !isStacked, points: { show: !isStacked }, drag: { x: false, y: false } },
    scales: {
      x: { time: false, range: () => [-0.5, labels.length - 0.5] },
      y: { range: (_plot, _least, most) => [0, (most || 1) * 1.08] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        incrs: [1, 2, 3, 7, 14, 30, 60, 90, 180, 365],
        space: 64,
        size: 28,
        values: (_plot, splits) => splits.map((index) => labels[index] ?? ""),
      },
      { ...axis, size: 56, space: 40, incrs: steps, values: (_plot, splits) => splits.map((value) => (format === plain ? short(value) : format(value))) },
    ],
    series: [{}, ...order.map((index) => line(kind, color(`--series-${index + 1}`)))],
    hooks: { setCursor: [(made) => point(made.cursor.idx ?? null)] },
  };
  return new uPlot(options, [labels.map((_, index) => index), ...drawn], box);
}

function line(kind: "bars" | "lines", stroke: string): uPlot.Series {
  if (kind === "lines") return { stroke, width: 1.5, points: { show: false }, spanGaps: true };
  const paths = uPlot.paths.bars?.({ size: [0.7, 40], align: 0, radius: [0.15, 0] });
  return { fill: stroke, width: 0, points: { show: false }, ...(paths ? { paths } : {}) };
}

function stacked(parts: ChartSeries[]): number[] {
  return (parts[0]?.values ?? []).map((_, index) => parts.reduce((sum, part) => sum + (part.values[index] ?? 0), 0));
}
