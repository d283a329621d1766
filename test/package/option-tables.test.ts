import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

const operators = readdirSync(join(project, 'operators'))
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts') && file !== 'index.ts')
  .map((file) => file.slice(0, -'.ts'.length))
  .sort();

const pathOf = (name: string): string => join(project, 'operators', `${name}.ts`);

/** `batch-map` has `BatchMapOptions`, `create-limiter` has `LimiterOptions`. */
function optionsNameOf(name: string): string {
  return `${name.replace(/^create-/, '').replaceAll(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase())}Options`;
}

const program = ts.createProgram(operators.map(pathOf), {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.NodeNext,
  types: [],
});
const checker = program.getTypeChecker();

/** Names of all options of an operator, those of the interfaces it extends included; undefined when it has none. */
function optionsOf(name: string): string[] | undefined {
  const file = program.getSourceFile(pathOf(name));
  const module = file && checker.getSymbolAtLocation(file);
  const symbol = module && checker.getExportsOfModule(module).find((exported) => exported.name === optionsNameOf(name));
  if (symbol === undefined) return undefined;
  const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const type = checker.getDeclaredTypeOfSymbol(target);
  const members = type.isUnion() ? type.types : [type];
  return [...new Set(members.flatMap((member) => checker.getPropertiesOfType(member)).map((property) => property.name))];
}

/** What the table under Defaults lists: the names in its first column, and those of a page that a row "all others" points to. */
function listedOn(name: string): Set<string> {
  const page = readFileSync(join(project, `docs/operators/${name}.md`), 'utf8');
  const section = /^## Defaults$([^]*?)^## /m.exec(page)?.[1] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('| '));
  const listed = rows.flatMap((row) => {
    const [, first = ''] = row.split('|');
    const other = /\(([a-z-]+)\.md#defaults\)/.exec(row)?.[1];
    if (first.trim() === 'all others' && other !== undefined) return [...listedOn(other)];
    return [...first.matchAll(/`([\w.]+)`/g)].map(([, option = '']) => option);
  });
  return new Set(listed);
}

describe('the page of', () => {
  it.each(operators)('%s lists every option', (name) => {
    const listed = listedOn(name);
    const missing = (optionsOf(name) ?? []).filter((option) => !listed.has(option));
    expect(missing).toEqual([]);
  });

  it('an operator with options is compared with its type', () => {
    expect(optionsOf('batch-map')).toEqual(expect.arrayContaining(['maxSize', 'order', 'failure', 'onEvent']));
    expect(operators.filter((name) => optionsOf(name) === undefined)).toEqual(['classify-error', 'from-native', 'from-stream']);
  });
});
