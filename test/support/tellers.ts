import { join, resolve } from 'node:path';
import ts from 'typescript';
import { programOfOwn } from './own-types.js';

const root = resolve(import.meta.dirname, '../..');
/** Listeners among options, and streams of what happens in what is returned. */
const LISTENERS = ['onEvent', 'onRecord'];
const STREAMS = ['events', 'metrics$'];

/** Names of the functions exported by a file that tell what happens: they take a listener, or what they return has events. Read from its types. */
export function tellersOf(entry: string): readonly string[] {
  const file = join(root, entry);
  const program = programOfOwn([file]);
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(file);
  const exported = source && checker.getSymbolAtLocation(source);
  if (exported === undefined) throw new Error(`cannot read the types of ${file}`);

  const has = (type: ts.Type, names: readonly string[]): boolean => {
    const whole = checker.getNonNullableType(checker.getBaseConstraintOfType(type) ?? type);
    const parts = whole.isUnion() ? whole.types : [whole];
    return parts.some((part) => names.some((name) => part.getProperty(name) !== undefined));
  };
  const tells = (signature: ts.Signature): boolean =>
    has(signature.getReturnType(), STREAMS) ||
    signature.getParameters().some((parameter) => has(checker.getTypeOfSymbol(parameter), LISTENERS));
  return checker.getExportsOfModule(exported).flatMap((symbol) => {
    const declared = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    const isTeller = declared.flags & ts.SymbolFlags.Function && checker.getTypeOfSymbol(declared).getCallSignatures().some(tells);
    return isTeller ? [symbol.name] : [];
  });
}
