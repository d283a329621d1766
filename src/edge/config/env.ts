import { type Finding, type Path, showPath, told } from './finding.js';
import type { SchemaNode } from './schema-node.js';
import { below, takes } from './schema-node.js';

/** Variables by their names: `process.env`. */
export type Env = Readonly<Record<string, string | undefined>>;

/** `${NAME}` and `${NAME:-default}`, for JSON Schema as well. */
export const VARIABLE = '\\$\\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\\}';

/** With `$${`, which stands for `${` itself, and with a beginning that comes to nothing. */
const ANY = new RegExp(`\\$\\$\\{|${VARIABLE}|\\$\\{`, 'g');

/** Texts for a model: what looks like a variable in them may be code. */
const VERBATIM: readonly string[] = ['prompt', 'system'];

/** Not what every object has. */
export function variable(env: Env, name: string): string | undefined {
  return Object.hasOwn(env, name) ? env[name] : undefined;
}

/** A configuration with its variables filled in. */
export interface Filled {
  readonly value: unknown;
  /** Names of the variables in what has some, by its path as people read it. */
  readonly origins: ReadonlyMap<string, readonly string[]>;
  readonly faults: readonly Finding[];
}

/** Fills in variables in all texts but those for a model. What stands where a number or a truth value belongs becomes one. */
export function fillIn(value: unknown, schema: SchemaNode, env: Env): Filled {
  const origins = new Map<string, readonly string[]>();
  const faults: Finding[] = [];
  return { value: walk(value, schema, []), origins, faults };

  function walk(from: unknown, node: SchemaNode | undefined, path: Path): unknown {
    if (typeof from === 'string') return VERBATIM.includes(String(path.at(-1))) ? from : fill(from, node, path);
    if (Array.isArray(from)) return from.map((item: unknown, i) => walk(item, below(node, i), [...path, i]));
    if (typeof from !== 'object' || from === null) return from;
    return Object.fromEntries(Object.entries(from).map(([key, item]) => [key, walk(item, below(node, key), [...path, key])]));
  }

  function fill(text: string, node: SchemaNode | undefined, path: Path): unknown {
    const names: string[] = [];
    const filled = text.replaceAll(ANY, (all, name: string | undefined, fallback: string | undefined) => {
      if (all === '$${') return '${';
      if (name === undefined) {
        faults.push({ path, ...told('incomplete variable', 'Write `${NAME}` or `${NAME:-default}`, or `$${` for a literal `${`.') });
        return '';
      }
      names.push(name);
      const given = variable(env, name);
      // As a shell does it: an empty one takes the default, too.
      if (given !== undefined && (given !== '' || fallback === undefined)) return given;
      if (fallback === undefined) {
        faults.push({
          path,
          ...told(`the environment variable \`${name}\` is not set`, `Set it, or write a default: \`\${${name}:-…}\`.`),
        });
      }
      return fallback ?? '';
    });
    if (names.length === 0) return filled;
    origins.set(showPath(path), names);
    if (takes(node, 'number') && filled.trim() !== '' && Number.isFinite(Number(filled))) return Number(filled);
    if (takes(node, 'boolean') && (filled === 'true' || filled === 'false')) return filled === 'true';
    return filled;
  }
}
