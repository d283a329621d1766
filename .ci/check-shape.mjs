// What the sources promise about their shape, so that a reader can hold them in mind: no file has more than 400 lines of code, and waiting has one home. Its errors are
// made in one module, and only `operators/kernel/waiting` and the checks of options read `maxQueued` and `overflow`. Lines of code, without comments and empty
// lines, are reported for the operators.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { number, project } from './bundle.mjs';

const MOST_LINES_OF_A_FILE = 400;

const WAITING_ERRORS = ['DeadlineError', 'OverflowError'];
/** Where they are made. */
const ERROR_MAKER = 'operators/options/waiting-errors.ts';

const BOUNDS = ['maxQueued', 'overflow'];
/** Modules that read them, and functions that check options. */
const BOUND_READERS = /^operators\/(kernel\/waiting|options)\/|-options\.ts$|\/settings\.ts$/;
const OPTION_CHECKS = /^(read\w*(Options|Settings)|\w+Config)$/;

const problems = [];
checkLines();
checkWaiting();
for (const problem of problems) console.log(`FAIL ${problem}`);
process.exitCode = problems.length === 0 ? 0 : 1;

function checkLines() {
  const files = sourceFiles('operators');
  const lines = files.reduce((sum, file) => sum + codeLines(readFileSync(join(project, file), 'utf8')), 0);
  console.log(`operators/: ${number(lines)} lines of code in ${files.length} files`);
  for (const file of [...files, ...sourceFiles('src')]) {
    const own = codeLines(readFileSync(join(project, file), 'utf8'));
    if (own > MOST_LINES_OF_A_FILE) problems.push(`${file}: ${own} lines of code, of ${MOST_LINES_OF_A_FILE}`);
  }
}

function checkWaiting() {
  const making = new Map();
  const reading = new Map();
  for (const name of [...sourceFiles('operators'), ...sourceFiles('src')]) {
    const file = ts.createSourceFile(name, readFileSync(join(project, name), 'utf8'), ts.ScriptTarget.ES2022, true);
    const at = (node) => `${name}:${file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1}`;
    const visit = (node) => {
      if (ts.isNewExpression(node) && WAITING_ERRORS.includes(node.expression.getText(file)) && name !== ERROR_MAKER)
        making.set(name, `${at(node)}: \`${ERROR_MAKER}\` makes the errors of waiting`);
      if (name.startsWith('operators/') && BOUNDS.includes(nameRead(node)) && !BOUND_READERS.test(name) && !isInCheck(node))
        reading.set(
          name,
          `${at(node)}: only \`operators/kernel/waiting\` and the checks of options read \`${nameRead(node)}\`; take the bounds`,
        );
      ts.forEachChild(node, visit);
    };
    visit(file);
  }
  problems.push(...making.values(), ...reading.values());
}

/** The property that an expression or a pattern reads; undefined for anything else. */
function nameRead(node) {
  if (ts.isPropertyAccessExpression(node)) return node.name.text;
  if (ts.isElementAccessExpression(node) && ts.isStringLiteralLike(node.argumentExpression)) return node.argumentExpression.text;
  if (!ts.isBindingElement(node) || !ts.isObjectBindingPattern(node.parent)) return undefined;
  const name = node.propertyName ?? node.name;
  return ts.isIdentifier(name) || ts.isStringLiteralLike(name) ? name.text : undefined;
}

/** Whether it is in a function that checks options, or in a table of checks that stands by itself. */
function isInCheck(node) {
  const names = [];
  for (let each = node.parent; each !== undefined; each = each.parent)
    if (ts.isClassLike(each) || (ts.isFunctionLike(each) && each.name !== undefined)) names.push(each.name?.getText() ?? '');
  return names.length === 0 || names.some((name) => OPTION_CHECKS.test(name));
}

function sourceFiles(folder) {
  return readdirSync(join(project, folder), { recursive: true })
    .map((file) => join(folder, file).replaceAll('\\', '/'))
    .filter((file) => /\.tsx?$/.test(file) && !file.endsWith('.d.ts'))
    .sort();
}

/** Lines that have something besides a comment. */
function codeLines(source) {
  const file = ts.createSourceFile('x.ts', source, ts.ScriptTarget.ES2022, false);
  const lines = new Set();
  const visit = (node) => {
    if (ts.isJSDoc(node)) return;
    if (node.kind !== ts.SyntaxKind.SyntaxList && node.getChildCount(file) === 0) {
      const [start, end] = [node.getStart(file), node.end];
      if (end > start) {
        const [first, last] = [start, end].map((at) => file.getLineAndCharacterOfPosition(at).line);
        for (let line = first; line <= last; line++) lines.add(line);
      }
    }
    for (const child of node.getChildren(file)) visit(child);
  };
  visit(file);
  return lines.size;
}
