// The declarations of ES modules, made of those for CommonJS: both would be the same text, and a third of the package.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

/** Packages with one declaration for both module systems. Others may have two, whose classes are different types: a copy of what uses them finds its own. */
const SAME_FOR_BOTH = /^(rxjs$|rxjs\/|node:)/;

/**
 * Writes `x.d.ts` for every `x.d.cts` of a folder: entries hand on what the other declares. Declarations that use foreign packages, and what uses those, are
 * copied, so that an ES module has the types that such a package declares for ES modules.
 *
 * @param entries - names without extension; other files are parts that several of these share
 */
export function writeDeclarations(folder, entries) {
  const names = readdirSync(folder).flatMap((name) => (name.endsWith('.d.cts') ? [name.slice(0, -'.d.cts'.length)] : []));
  const files = new Map(names.map((name) => [name, readDeclaration(join(folder, `${name}.d.cts`))]));
  const copied = copiedOf(files);
  for (const [name, { text }] of files) {
    if (copied.has(name)) writeFileSync(join(folder, `${name}.d.ts`), withSpecifiers(text, copied));
    else if (entries.includes(name)) writeFileSync(join(folder, `${name}.d.ts`), `export * from './${name}.cjs';\n`);
  }
}

function readDeclaration(file) {
  const text = readFileSync(file, 'utf8');
  return { text, imports: ts.preProcessFile(text).importedFiles.map(({ fileName }) => fileName) };
}

/** Names of the files that reach a foreign package, by whatever way. */
function copiedOf(files) {
  const copied = new Set();
  const reaches = (path) => (ownName(path) === undefined ? !SAME_FOR_BOTH.test(path) : copied.has(ownName(path)));
  for (let before = -1; before < copied.size; ) {
    before = copied.size;
    for (const [name, { imports }] of files) if (imports.some(reaches)) copied.add(name);
  }
  return copied;
}

/** The file that a specifier of ours names. */
function ownName(path) {
  return /^\.\/(.+)\.cjs$/.exec(path)?.[1];
}

function withSpecifiers(text, copied) {
  const found = ts.preProcessFile(text).importedFiles.filter(({ fileName }) => copied.has(ownName(fileName)));
  return found.toReversed().reduce((rest, { pos, fileName }) => {
    // The position is that of the quote.
    const start = rest.indexOf(fileName, pos);
    return `${rest.slice(0, start)}./${ownName(fileName)}.js${rest.slice(start + fileName.length)}`;
  }, text);
}
