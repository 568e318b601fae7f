// What pages are made of.
export { Chart, type ChartSeries } from "./chart";
export { Confirm } from "./confirm";
export { Badge, Button, Copy, Dialog } from "./controls";
export { Card } from "./card";
export { Filters, useFilters } from "./filters";
export { Rows } from "./rows";
export { State } from "./state";
export { Markdown, Said, Text } from "./text";
export { Time } from "./time";
export { toast, tried } from "./toast";
