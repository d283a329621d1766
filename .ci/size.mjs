// What a bundle costs, from the sources, without a build, in a second (minified, gzipped, without RxJS):
//   npm run size                             every promised size: now / target
//   npm run size batchMap batchMap+lanes     these; a `+` makes one bundle of several
//   npm run size -- --parts batchMap         and what each file takes of it before gzip
//   npm run size operators/kernel/x.ts       all that a file exports
import { parseArgs } from 'node:util';
import { measureSource, number, promises } from './bundle.mjs';

const { values: flags, positionals: asked } = parseArgs({ options: { parts: { type: 'boolean' } }, allowPositionals: true });

const all = promises.map(({ exports, source }) => source ?? exports.join('+'));
for (const what of asked.length === 0 ? all : asked) await show(what);

async function show(what) {
  const file = /\.ts$/.test(what) ? `./${what.replace(/^\.\//, '')}` : undefined;
  const names = file === undefined ? what.split('+') : (promises.find(({ source }) => `./${source}` === file)?.exports ?? ['*']);
  const isIt = ({ exports, source }) => (source === undefined ? exports.toSorted().join() === names.toSorted().join() : false);
  const promise = promises.find(file === undefined ? isIt : ({ source }) => `./${source}` === file);
  const target = promise?.target;
  const measured = await measureSource(names, file).catch((error) => error);
  const promised = target === undefined ? '' : ` / ${number(target)}`;
  if (measured instanceof Error) {
    console.log(`${'not yet'.padStart(8)}${promised}  ${what}: ${reason(measured)}`);
    process.exitCode = 1;
    return;
  }
  tell(what, measured);
  const { later } = measured;
  if (later === undefined) return;
  tell(`${what}: what is loaded later`, later);
  tell(`${what}: both`, { gzipBytes: measured.gzipBytes + later.gzipBytes, minBytes: measured.minBytes + later.minBytes, parts: [] });

  function tell(name, { gzipBytes, minBytes, parts }) {
    const over = gzipBytes > (target ?? Infinity) ? `  OVER BY ${number(gzipBytes - target)}` : '';
    console.log(`${number(gzipBytes).padStart(8)}${promised.padEnd(9)} ${name} (${number(minBytes)} before gzip)${over}`);
    if (!flags.parts) return;
    for (const [part, bytes] of parts.toSorted(([, a], [, b]) => b - a)) console.log(`${number(bytes).padStart(20)}  ${part}`);
  }
}

function reason(error) {
  const texts = error.errors?.map(({ text }) => text) ?? [error.message];
  const missing = texts.map((text) => /No matching export in .* for import "(\w+)"/.exec(text)?.[1]);
  return missing.includes(undefined) ? texts.join('; ') : `no ${missing.join(', ')}`;
}
