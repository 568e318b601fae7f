// Charts by uPlot, with numbers on hover and the same numbers as a table.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { theme } from "../theme";

export interface Series {
  name: string;
  values: (number | null)[];
  /** A custom property of the style, such as `--type-decision`. */
  color: string;
}

interface ChartProps {
  title: string;
  /** Seconds since 1970 of each value. */
  times: number[];
  series: Series[];
  kind?: "bars" | "line";
  /** How a value is written. */
  format?: (value: number) => string;
  /** How a time is written. */
  when?: (seconds: number) => string;
}

const HEIGHT = 180;

export function Chart({ title, times, series, kind = "bars", format = String, when = day }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const axis = {
      stroke: color("--quiet"),
      grid: { stroke: color("--line"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui",
    };
    const plot = new uPlot(
      {
        width: box.clientWidth,
        height: HEIGHT,
        cursor: { y: false, drag: { x: false, y: false } },
        scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
        axes: [
          { ...axis, grid: { show: false } },
          { ...axis, size: 56, values: (_, values) => values.map((value) => format(value)) },
        ],
        series: [
          { label: "", value: (_, value) => (value === null ? "" : when(value)) },
          ...series.map((one) => ({
            label: one.name,
            stroke: color(one.color),
            fill: kind === "bars" ? color(one.color) : undefined,
            width: kind === "bars" ? 0 : 2,
            points: { show: kind === "line" && times.length < 40 },
            paths: kind === "bars" ? uPlot.paths.bars?.({ size: [0.7, 28] }) : undefined,
            value: (_: uPlot, value: number | null) => (value === null ? "–" : format(value)),
          })),
        ],
      },
      [times, ...series.map((one) => one.values)],
      box,
    );
    const resize = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT }));
    resize.observe(box);
    return () => {
      resize.disconnect();
      plot.destroy();
    };
  }, [JSON.stringify([times, series]), kind, theme.value]);
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} class="plot" role="img" aria-label={`${title}, as a chart. The table below has its numbers.`} />
      <details>
        <summary>Numbers</summary>
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>Time</th>
                {series.map((one) => (
                  <th key={one.name}>{one.name}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {times.map((time, row) => (
                <tr key={time}>
                  <td>{when(time)}</td>
                  {series.map((one) => (
                    <td key={one.name}>{one.values[row] == null ? "–" : format(one.values[row] as number)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

function day(seconds: number): string {
  return new Date(seconds * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}
