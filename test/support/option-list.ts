import { join, resolve } from 'node:path';
import ts from 'typescript';
import { programOfOwn } from './own-types.js';

const root = resolve(import.meta.dirname, '../..');
const operators = join(root, 'operators');

/** What a maker of values returns is for an option to take: its methods are called by the engine. */
const VALUES: ReadonlySet<string> = new Set([
  'DivideStrategy',
  'Fairness',
  'GrantQueueRule',
  'HedgeRule',
  'KeyFairness',
  'LearnRule',
  'LeaseHolder',
  'LoadCache',
  'MemoryStore',
  'Order',
  'QueueRule',
  'RateRule',
  'RepairRule',
  'SharedStore',
  'SplitAndJoin',
  'SplitItem',
  'Window',
]);

/**
 * Every option and parameter of each function that `sluice/operators` and `sluice/interop` export, read from its types.
 * Options of the function: `maxSize`, `retry.maxMs`, `lanes[0].floor`. Other parameters: their names.
 * Methods of the returned handle: `LimiterJob.timeoutMs` (fields of an object, by the name of its type) or `penalize.pauseMs`.
 */
export function optionLists(): ReadonlyMap<string, readonly string[]> {
  const entries = [join(operators, 'index.ts'), join(operators, 'interop.ts')];
  const program = programOfOwn(entries, ['rxjs']);
  const checker = program.getTypeChecker();
  const exported = entries.flatMap((entry) => {
    const source = program.getSourceFile(entry);
    const symbol = source && checker.getSymbolAtLocation(source);
    if (symbol === undefined) throw new Error(`cannot read the types of ${entry}`);
    return checker.getExportsOfModule(symbol);
  });
  const reader = new Reader(checker);
  return new Map(
    exported.flatMap((symbol) => {
      const declaration = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
      return declaration.flags & ts.SymbolFlags.Function ? [[symbol.name, reader.function(declaration)] as const] : [];
    }),
  );
}

/** What stands for the platform is no option of ours. */
function isOwnFile(path: string): boolean {
  return path.startsWith(operators) && !path.endsWith('/platform.d.ts');
}

class Reader {
  readonly #checker: ts.TypeChecker;

  constructor(checker: ts.TypeChecker) {
    this.#checker = checker;
  }

  function(symbol: ts.Symbol): string[] {
    const signatures = this.#checker.getTypeOfSymbol(symbol).getCallSignatures();
    const names = signatures.flatMap((signature) => [
      ...signature.getParameters().flatMap((parameter) => this.#parameter(parameter)),
      ...this.#handle(signature.getReturnType()),
    ]);
    return [...new Set(names)];
  }

  /** A record of options counts by its fields, a list by itself and the fields of its elements, whatever else by its own name. */
  #parameter(parameter: ts.Symbol): string[] {
    const type = this.#typeOf(parameter);
    const records = this.#parts(type).filter((part) => this.#isRecord(part));
    if (records.length > 0) return records.flatMap((record) => this.#fields(record, ''));
    return [parameter.name, ...this.#elements(type, parameter.name)];
  }

  /** What the methods of a handle take, and those of the handles that they return. */
  #handle(type: ts.Type, seen = new Set<ts.Symbol>()): string[] {
    const { symbol } = type as { symbol?: ts.Symbol };
    const isValue = this.#members(type).some(({ symbol: made }) => VALUES.has(made.name)) || VALUES.has(type.aliasSymbol?.name ?? '');
    if (isValue || symbol === undefined || !this.#isOurs(symbol) || seen.has(symbol)) return [];
    seen.add(symbol);
    const methods = type.getProperties().map((method) => [method.name, this.#typeOf(method)] as const);
    return [...methods, ['call', type] as const].flatMap(([name, callable]) =>
      callable
        .getCallSignatures()
        .flatMap((signature) => [
          ...signature.getParameters().flatMap((parameter) => this.#argument(name, parameter)),
          ...this.#returned(signature.getReturnType()).flatMap((returned) => this.#handle(returned, seen)),
        ]),
    );
  }

  /** Members of an intersection. */
  #members(type: ts.Type): readonly { readonly symbol: ts.Symbol }[] {
    return (type.isIntersection() ? type.types : [type]).filter((member) => (member as { symbol?: ts.Symbol }).symbol !== undefined);
  }

  #argument(method: string, parameter: ts.Symbol): string[] {
    const records = this.#parts(this.#typeOf(parameter)).filter((part) => this.#isRecord(part));
    if (records.length === 0) return [`${method}.${parameter.name}`];
    return records.flatMap((record) => this.#fields(record, `${record.symbol.name}.`));
  }

  /** Without the fields of a record inside another one of its type. */
  #fields(record: ts.Type, prefix: string, around: readonly ts.Type[] = []): string[] {
    if (around.includes(record)) return [];
    const inside = [...around, record];
    return record.getProperties().flatMap((field) => {
      const name = `${prefix}${field.name}`;
      const type = this.#typeOf(field);
      const records = this.#parts(type).filter((part) => this.#isRecord(part));
      return [name, ...records.flatMap((part) => this.#fields(part, `${name}.`, inside)), ...this.#elements(type, name, inside)];
    });
  }

  #elements(type: ts.Type, name: string, around: readonly ts.Type[] = []): string[] {
    return this.#parts(type)
      .flatMap((part) => this.#checker.getIndexTypeOfType(part, ts.IndexKind.Number) ?? [])
      .filter((element) => this.#isRecord(element))
      .flatMap((element) => [`${name}[0]`, ...this.#fields(element, `${name}[0].`, around)]);
  }

  /** The type itself and what an Observable or promise of it carries. */
  #returned(type: ts.Type): ts.Type[] {
    return this.#parts(type).flatMap((part) => [part, ...this.#checker.getTypeArguments(part as ts.TypeReference)]);
  }

  /** Members of a union, without undefined; a type parameter stands for what it extends. */
  #parts(type: ts.Type): ts.Type[] {
    const whole = this.#checker.getNonNullableType(this.#checker.getBaseConstraintOfType(type) ?? type);
    return whole.isUnion() ? whole.types : [whole];
  }

  #typeOf(symbol: ts.Symbol): ts.Type {
    return this.#checker.getNonNullableType(this.#checker.getTypeOfSymbol(symbol));
  }

  /** An object of ours that only has data: options, and not a limiter or an error. */
  #isRecord(type: ts.Type): boolean {
    const { symbol } = type as { symbol?: ts.Symbol };
    // One of a class with type parameters is no class.
    if ((symbol !== undefined && symbol.flags & ts.SymbolFlags.Class) || type.getCallSignatures().length > 0) return false;
    const fields = type.getProperties();
    return fields.length > 0 && fields.every((field) => this.#isOurs(field) && !(field.flags & ts.SymbolFlags.Method));
  }

  #isOurs(symbol: ts.Symbol): boolean {
    return symbol.declarations?.every((declaration) => isOwnFile(declaration.getSourceFile().fileName)) ?? false;
  }
}
