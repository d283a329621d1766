/** What is there of it: to the client of AG-UI a field that is undefined is one it does not know. */
export function said<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as ReturnType<typeof said<T>>;
}
