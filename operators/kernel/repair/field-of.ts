/** What reading something that others made says: nothing where it cannot be read, as behind a getter that throws, or of a proxy that is gone. */
export function tryRead<R>(read: () => R): R | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** A field of an error, or of what hangs on one. */
export function fieldOf(value: unknown, name: string): unknown {
  return tryRead(() => (Object(value) as Readonly<Record<string, unknown>>)[name]);
}
