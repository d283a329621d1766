import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(project, path), 'utf8');

interface Row {
  readonly section: string;
  readonly number: string;
  readonly heldBy: string;
}

/** The rows of every table on the page, without the heads. */
const rows: readonly Row[] = read('docs/traps.md')
  .split('\n## ')
  .slice(1)
  .flatMap((part) => {
    const [section = '', ...lines] = part.split('\n');
    return lines
      .filter((line) => line.startsWith('| ') && !line.startsWith('| # ') && !line.startsWith('| --- '))
      .map((line) => {
        const [number = '', , , heldBy = ''] = line.slice(2, -2).split(' | ');
        return { section, number: number.trim(), heldBy };
      });
  });

/** Tests that a cell names, as `file`: title. */
function testsIn(cell: string): { readonly file: string; readonly title: string }[] {
  return cell.split('<br>').flatMap((entry) => {
    const [, file, title] = /^`(test\/\S+\.test\.ts)`: (.+)$/.exec(entry) ?? [];
    return file === undefined || title === undefined ? [] : [{ file, title }];
  });
}

/** The titles of a file's tests that are not skipped. Where a table names its tests (`%s` alone), also what the table calls them. */
function titlesOf(file: string): Set<string> {
  const titles = new Set<string>();
  const inTables = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && /^it(?:\.each\b|$)/.test(node.expression.getText())) {
      const [title] = node.arguments;
      if (title !== undefined && ts.isStringLiteralLike(title)) titles.add(title.text);
    }
    if (ts.isPropertyAssignment(node) && ts.isStringLiteral(node.name)) inTables.add(node.name.text);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, read(file), ts.ScriptTarget.Latest, true));
  return titles.has('%s') ? new Set([...titles, ...inTables]) : titles;
}

const named = rows.flatMap(({ heldBy }) => testsIn(heldBy));

describe('docs/traps.md', () => {
  it('has every row of its lists', () => {
    const numbersIn = (section: string): string[] =>
      rows.flatMap((row) => (row.section.startsWith(section) && row.number ? [row.number] : []));
    const upTo = (last: number, first = 1): string[] => Array.from({ length: last - first + 1 }, (_, i) => String(first + i));
    expect(numbersIn('RxJS')).toEqual(upTo(9));
    expect(numbersIn('Other packages')).toEqual(upTo(29, 10));
    expect(numbersIn('Copied: tools in parallel')).toEqual(upTo(8));
    expect(numbersIn('Copied: documents and their parts')).toEqual(upTo(5));
    expect(numbersIn('Copied: recipes for batches')).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']);
    expect(numbersIn('Copied: time limits')).toEqual(upTo(9));
    expect(numbersIn('Copied: three levels of limits')).toEqual(upTo(12));
  });

  it('names a test in each row, or says why there is none', () => {
    const isReason = (cell: string): boolean => /^(?:later|does not apply|bench): \S/.test(cell);
    const wrong = rows.filter(({ heldBy }) => !isReason(heldBy) && testsIn(heldBy).length !== heldBy.split('<br>').length);
    expect(wrong).toEqual([]);
  });

  it.each([...new Set(named.map(({ file }) => file))])('names tests of %s that exist', (file) => {
    const titles = titlesOf(file);
    expect(named.filter((test) => test.file === file && !titles.has(test.title)).map(({ title }) => title)).toEqual([]);
  });

  it('names every test of test/traps', () => {
    const files = readdirSync(join(project, 'test/traps')).filter((file) => file.endsWith('.test.ts'));
    const known = new Set(named.map(({ title }) => title));
    expect(files.flatMap((file) => [...titlesOf(`test/traps/${file}`)].filter((title) => !known.has(title)))).toEqual([]);
  });
});
