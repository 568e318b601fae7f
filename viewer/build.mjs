// Bundles the page into the package, where the worker serves it from.
import { copyFile, mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const assets = here("../src/backstory/worker/viewer/assets/");

await mkdir(assets, { recursive: true });
await build({
  entryPoints: [
    { in: here("src/main.tsx"), out: "viewer" },
    { in: here("src/style.css"), out: "viewer" },
  ],
  outdir: assets,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".woff2": "file" },
  assetNames: "[name]",
  legalComments: "eof", // the licences of the libraries stay with them
  logLevel: "warning",
});
await copyFile(here("node_modules/@fontsource-variable/source-sans-3/LICENSE"), `${assets}FONTS-LICENSE.txt`);
await copyFile(here("src/icon.svg"), `${assets}icon.svg`);
await copyFile(here("src/index.html"), `${assets}index.html`); // the last: it says that the build is whole
