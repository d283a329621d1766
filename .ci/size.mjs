// What a bundle costs, from the sources, without a build, in a second (minified, gzipped, without RxJS):
//   npm run size                             every program of `.ci/bundle.mjs`
//   npm run size batchMap batchMap+lanes     these; a `+` makes one bundle of several
//   npm run size -- --parts batchMap         and what each file takes of it before gzip
//   npm run size operators/kernel/x.ts       all that a file exports
import { parseArgs } from 'node:util';
import { measureSource, number, programs } from './bundle.mjs';

const { values: flags, positionals: asked } = parseArgs({ options: { parts: { type: 'boolean' } }, allowPositionals: true });

if (asked.length > 0) for (const what of asked) await show(what, ...partsOf(what));
else for (const { title, source, exports } of programs) await show(title ?? source ?? exports.join('+'), exports, source && `./${source}`);

/** Names and entry: all that a file exports, or names of the operators. */
function partsOf(what) {
  return /\.ts$/.test(what) ? [['*'], `./${what.replace(/^\.\//, '')}`] : [what.split('+')];
}

async function show(what, names, entry) {
  const measured = await measureSource(names, entry).catch((error) => error);
  if (measured instanceof Error) {
    console.log(`${'not yet'.padStart(8)}  ${what}: ${reason(measured)}`);
    process.exitCode = 1;
    return;
  }
  tell(what, measured);
  const { later } = measured;
  if (later === undefined) return;
  tell(`${what}: what is loaded later`, later);
  tell(`${what}: both`, { gzipBytes: measured.gzipBytes + later.gzipBytes, minBytes: measured.minBytes + later.minBytes, parts: [] });
}

function tell(name, { gzipBytes, minBytes, parts }) {
  console.log(`${number(gzipBytes).padStart(8)}  ${name} (${number(minBytes)} before gzip)`);
  if (!flags.parts) return;
  for (const [part, bytes] of parts.toSorted(([, a], [, b]) => b - a)) console.log(`${number(bytes).padStart(20)}  ${part}`);
}

function reason(error) {
  const texts = error.errors?.map(({ text }) => text) ?? [error.message];
  const missing = texts.map((text) => /No matching export in .* for import "(\w+)"/.exec(text)?.[1]);
  return missing.includes(undefined) ? texts.join('; ') : `no ${missing.join(', ')}`;
}
