// What the operators promise about their own size, so that a reader can hold them in mind:
//   no file over 500 lines, what `sluice/operators` exports, and every type in a signature exported too. Code without comments and empty lines is
//   reported.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { number, project } from './bundle.mjs';

/** At 44f4f3e; 30 % less is the goal. */
const CODE_LINES_BEFORE = 14_851;
const CODE_LINES_GOAL = Math.floor(0.7 * CODE_LINES_BEFORE);
const MOST_LINES_OF_A_FILE = 500;
const MOST_EXPORTED_VALUES = 72;

const problems = [];
checkLines();
checkExports();
for (const problem of problems) console.log(`FAIL ${problem}`);
process.exitCode = problems.length === 0 ? 0 : 1;

function checkLines() {
  const files = sourceFiles('operators');
  const lines = files.reduce((sum, file) => sum + codeLines(readFileSync(join(project, file), 'utf8')), 0);
  const percent = Math.round((100 * lines) / CODE_LINES_BEFORE);
  console.log(
    `operators/: ${number(lines)} lines of code (the goal is ${number(CODE_LINES_GOAL)}) in ${files.length} files, ${percent} % of 44f4f3e`,
  );
  for (const file of [...files, ...sourceFiles('src')]) {
    const own = readFileSync(join(project, file), 'utf8').split('\n').length - 1;
    if (own > MOST_LINES_OF_A_FILE) problems.push(`${file}: ${own} lines of ${MOST_LINES_OF_A_FILE}`);
  }
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

function checkExports() {
  const entry = join(project, 'operators/index.ts');
  const { config } = ts.readConfigFile(join(project, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config, files: [entry], include: [] }, ts.sys, project);
  const program = ts.createProgram([entry, join(project, 'operators/platform.d.ts')], { ...options, noEmit: true });
  const checker = program.getTypeChecker();
  const resolved = (symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol);
  const names = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)));
  const exported = names.map(resolved);
  const isTypeOnly = ({ declarations: [specifier] }) => ts.isExportSpecifier(specifier) && specifier.parent.parent.isTypeOnly;
  const values = names.filter((symbol) => resolved(symbol).flags & ts.SymbolFlags.Value && !isTypeOnly(symbol));
  console.log(`sluice/operators: ${values.length} / ${MOST_EXPORTED_VALUES} values, ${exported.length - values.length} types`);
  if (values.length > MOST_EXPORTED_VALUES) problems.push(`sluice/operators: exports ${values.length} values`);
  const hidden = new Map();
  for (const symbol of exported) for (const name of namesIn(symbol)) if (isHidden(name)) hidden.set(name, symbol.name);
  for (const [name, user] of hidden) problems.push(`sluice/operators: ${user} names ${name.name}, which is not exported`);

  function isHidden(symbol) {
    const file = symbol.declarations?.[0]?.getSourceFile().fileName ?? '';
    return file.startsWith(join(project, 'operators/')) && !file.endsWith('.d.ts') && !exported.includes(symbol);
  }

  /** The named types that somebody reads who reads what a symbol promises: no bodies, no private members. */
  function namesIn(symbol) {
    const found = new Set();
    const visit = (node) => {
      if (ts.isBlock(node) || ts.isClassStaticBlockDeclaration(node) || isPrivate(node)) return;
      if (ts.isPropertyDeclaration(node) || ts.isVariableDeclaration(node) || ts.isParameter(node)) {
        if (node.type) visit(node.type);
        return;
      }
      const name = ts.isTypeReferenceNode(node) ? node.typeName : ts.isExpressionWithTypeArguments(node) ? node.expression : undefined;
      const named = name && checker.getSymbolAtLocation(name);
      if (named && !(named.flags & ts.SymbolFlags.TypeParameter)) found.add(resolved(named));
      ts.forEachChild(node, visit);
    };
    for (const declaration of symbol.declarations ?? []) {
      // Who writes an overload does not show the function behind.
      if (ts.isFunctionDeclaration(declaration) && declaration.body && symbol.declarations.length > 1) continue;
      visit(declaration);
    }
    return found;
  }

  function isPrivate(node) {
    const isHash = node.name !== undefined && ts.isPrivateIdentifier(node.name);
    return isHash || (ts.canHaveModifiers(node) && (ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Private) !== 0);
  }
}
