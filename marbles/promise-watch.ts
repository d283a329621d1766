/** Where a promise was waited for, as a line of the stack; empty where the host has no stacks. */
type Seen = (place: string) => void;

/**
 * Calls `seen` whenever something waits for the value of a promise while `run` runs. What only swallows a rejection (`promise.catch(…)`) waits
 * for nothing. A foreign thenable is seen as well: what waits for it makes a promise of it first.
 */
export function watchPromises<R>(seen: Seen, run: () => R): R {
  const original = Object.getOwnPropertyDescriptor(Promise.prototype, 'then') as PropertyDescriptor;
  const then = original.value as Promise<unknown>['then'];
  let isTelling = false;
  Reflect.defineProperty(Promise.prototype, 'then', {
    ...original,
    value: function watched(this: Promise<unknown>, ...handlers: Parameters<typeof then>): Promise<unknown> {
      if (typeof handlers[0] === 'function' && !isTelling) {
        isTelling = true;
        try {
          seen(placeOf(new Error().stack));
        } finally {
          isTelling = false;
        }
      }
      return Reflect.apply<Promise<unknown>, typeof handlers, Promise<unknown>>(then, this, handlers);
    },
  });
  try {
    return run();
  } finally {
    Reflect.defineProperty(Promise.prototype, 'then', original);
  }
}

/** The line of what called `then`: the third, after the message and `watched` itself. */
function placeOf(stack: string | undefined): string {
  return (
    stack
      ?.split('\n')
      .find((line, at) => at > 1 && /^\s+at /.test(line))
      ?.trim() ?? ''
  );
}
