import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { operators } from './files.js';

const project = resolve(import.meta.dirname, '../..');

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

interface Option {
  readonly name: string;
  /** What `@defaultValue` says. */
  readonly fallback: string | undefined;
}

/** All options of an operator, those of the interfaces it extends included; undefined when it has none. */
function optionsOf(name: string): Option[] | undefined {
  const file = program.getSourceFile(pathOf(name));
  const module = file && checker.getSymbolAtLocation(file);
  const symbol = module && checker.getExportsOfModule(module).find((exported) => exported.name === optionsNameOf(name));
  if (symbol === undefined) return undefined;
  const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const type = checker.getDeclaredTypeOfSymbol(target);
  const members = type.isUnion() ? type.types : [type];
  const properties = members.flatMap((member) => checker.getPropertiesOfType(member));
  return [...new Map(properties.map((property) => [property.name, optionOf(property)])).values()];
}

function optionOf(property: ts.Symbol): Option {
  const tag = property.getJsDocTags(checker).find((each) => each.name === 'defaultValue');
  return { name: property.name, fallback: ts.displayPartsToString(tag?.text).trim() };
}

interface Row {
  /** Names in the first column. */
  readonly options: readonly string[];
  readonly fallback: string;
}

/** The table under Defaults, and that of a page that a row "all others" points to. */
function rowsOn(name: string): Row[] {
  const page = readFileSync(join(project, `docs/operators/${name}.md`), 'utf8');
  const section = /^## Defaults$([^]*?)^## /m.exec(page)?.[1] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('| '));
  return rows.flatMap((row) => {
    // A `|` inside code is written `\|`.
    const [, first = '', second = ''] = row.split(/(?<!\\)\|/);
    const other = /\(([a-z-]+)\.md#defaults\)/.exec(row)?.[1];
    if (first.trim() === 'all others' && other !== undefined) return rowsOn(other);
    return { options: [...first.matchAll(/`([\w.]+)`/g)].map(([, option = '']) => option), fallback: second.replaceAll('`', '').trim() };
  });
}

/** A default that can be compared: a number, a word of code or none. Others are told in words of their own. */
const PLAIN = /^(?:-?[\d.]+|'\w+'|true|false|Infinity|none)$/;

describe('the page of', () => {
  it.each(operators)('%s lists every option', (name) => {
    const listed = new Set(rowsOn(name).flatMap(({ options }) => options));
    const missing = (optionsOf(name) ?? []).filter((option) => !listed.has(option.name));
    expect(missing).toEqual([]);
  });

  it.each(operators)('%s tells the defaults that the options tell', (name) => {
    const rows = rowsOn(name);
    const wrong = (optionsOf(name) ?? []).flatMap(({ name: option, fallback = '' }) => {
      const row = rows.find(({ options }) => options.includes(option));
      if (row === undefined || !PLAIN.test(fallback)) return [];
      return row.fallback.replaceAll(',', '') === fallback ? [] : [`${option}: ${row.fallback}, not ${fallback}`];
    });
    expect(wrong).toEqual([]);
  });

  it('an operator with options is compared with its type', () => {
    const names = optionsOf('batch-map')?.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['maxSize', 'order', 'onEvent']));
    expect(operators.filter((name) => optionsOf(name) === undefined)).toEqual([
      'classify-error',
      'from-native',
      'from-stream',
      'from-subscribable',
    ]);
  });
});
