interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly description?: string;
}

export interface ConfigKey {
  readonly path: string;
  readonly description: string;
  /** In a table of docs/config.md. */
  readonly row: string;
}

/** Every key of a configuration, by its JSON Schema. */
export function configKeys(schema: Schema, within = ''): ConfigKey[] {
  const parts = Object.entries(schema.properties ?? {}).flatMap(([key, part]) => {
    const path = within === '' ? key : `${within}.${key}`;
    const description = part.description ?? '';
    return [{ path, description, row: `| \`${path}\` | ${description} |` }, ...configKeys(part, path)];
  });
  const named = typeof schema.additionalProperties === 'object' ? configKeys(schema.additionalProperties, `${within}.<name>`) : [];
  const listed = schema.items ? configKeys(schema.items, `${within}[]`) : [];
  return [...parts, ...named, ...listed, ...(schema.anyOf ?? []).flatMap((one) => configKeys(one, within))];
}
