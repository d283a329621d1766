/** What happens to an operator, by the name of the row; the text is what the document says. */
export const ROWS = {
  complete: 'The source completes',
  sourceError: 'The source errors',
  leave: 'The consumer leaves',
  reenter: 'The consumer sends into the source',
  million: 'A million items at once',
  badNumber: 'An option is 0, -1 or NaN',
  infinity: 'An option is Infinity',
  oversize: 'An item is too heavy',
  callback: '`weigh`, or another callback, throws',
  emptyKey: 'A lane or key is empty',
  stuck: 'Work, or a lane, never ends',
  inversion: 'Urgent work stands behind other work',
  aborted: 'A call was aborted',
  timers: 'Everything is over',
} as const;

export type Row = keyof typeof ROWS;

/** What an operator does, in words and as a test; or why the question has no meaning for it. */
export type Cell = { readonly what: string; readonly check: () => unknown } | { readonly na: string };

export type Cells = Readonly<Record<Row, Cell>>;

export function cell(what: string, check: () => unknown): Cell {
  return { what, check };
}

export function na(reason: string): Cell {
  return { na: reason };
}
