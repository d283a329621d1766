/** What was started on the host (timers, abort listeners) since the watch began and is still there. */
export interface HostWatch {
  readonly left: () => string[];
  readonly stop: () => void;
}

interface Listening {
  readonly signal: AbortSignal;
  readonly listener: unknown;
  readonly text: string;
}

interface Log {
  readonly timers: Map<unknown, string>;
  listeners: Listening[];
}

type Anything = (this: unknown, ...args: unknown[]) => unknown;

/** Every watch that goes on; the host is only changed while there is one. */
const logs = new Set<Log>();
let restore: (() => void)[] = [];

/** Writes down host timers and abort listeners. Watches may overlap; the last that stops leaves the host as it was. */
export function watchHost(): HostWatch {
  const log: Log = { timers: new Map(), listeners: [] };
  if (logs.size === 0) restore = [...wrapTimers(), ...wrapListeners()];
  logs.add(log);
  return {
    left: () => [
      ...log.timers.values(),
      // A signal that has fired never fires again, so a listener left on it is no leak.
      ...log.listeners.filter(({ signal }) => !signal.aborted).map(({ text }) => text),
    ],
    stop: () => {
      if (!logs.delete(log) || logs.size > 0) return;
      for (const undo of restore) undo();
    },
  };
}

function wrapTimers(): (() => void)[] {
  const forget = (id: unknown): void => {
    for (const { timers } of logs) timers.delete(id);
  };
  const starts = (kind: string, describe: (delayMs: unknown) => string, once: boolean) =>
    wrap(globalThis, kind, (original) => (callback, delayMs, ...args) => {
      const run: unknown =
        once && typeof callback === 'function'
          ? (...given: unknown[]): void => {
              forget(id);
              (callback as Anything)(...given);
            }
          : callback;
      const id = original.call(globalThis, run, delayMs, ...args);
      const text = `${describe(delayMs)}, set ${place()}`;
      for (const { timers } of logs) timers.set(id, text);
      return id;
    });
  const clears = (kind: string) =>
    wrap(globalThis, kind, (original) => (id) => {
      forget(id);
      return original.call(globalThis, id);
    });
  const inMs = (kind: string) => (delayMs: unknown) => `${kind} of ${String(typeof delayMs === 'number' ? delayMs : 0)} ms`;
  return [
    ...starts('setTimeout', inMs('a timeout'), true),
    ...starts('setInterval', inMs('an interval'), false),
    ...wrap(globalThis, 'setImmediate', (original) => (callback, ...args) => {
      const id = original.call(
        globalThis,
        (...given: unknown[]) => {
          forget(id);
          (callback as Anything)(...given);
        },
        ...args,
      );
      const text = `an immediate, set ${place()}`;
      for (const { timers } of logs) timers.set(id, text);
      return id;
    }),
    ...['clearTimeout', 'clearInterval', 'clearImmediate'].flatMap(clears),
  ];
}

function wrapListeners(): (() => void)[] {
  return [
    ...wrap(
      EventTarget.prototype,
      'addEventListener',
      (original) =>
        function (type, listener, ...rest) {
          original.call(this, type, listener, ...rest);
          if (type !== 'abort' || !(this instanceof AbortSignal)) return;
          const text = `an abort listener, added ${place()}`;
          for (const log of logs) {
            const known = log.listeners.some((other) => other.signal === this && other.listener === listener);
            if (!known) log.listeners.push({ signal: this, listener, text });
          }
        },
    ),
    ...wrap(
      EventTarget.prototype,
      'removeEventListener',
      (original) =>
        function (type, listener, ...rest) {
          original.call(this, type, listener, ...rest);
          if (type !== 'abort') return;
          for (const log of logs) log.listeners = log.listeners.filter((other) => other.signal !== this || other.listener !== listener);
        },
    ),
  ];
}

/** Replaces a function of the host. The returned function restores it, unless other code has replaced it meanwhile. */
function wrap(holder: object, name: string, wrapper: (original: Anything) => Anything): (() => void)[] {
  const functions = holder as Record<string, Anything | undefined>;
  const original = functions[name];
  if (original === undefined) return [];
  // What hangs on the original (`util.promisify` looks for it) stays.
  const wrapped = Object.defineProperties(wrapper(original), Object.getOwnPropertyDescriptors(original));
  functions[name] = wrapped;
  return [
    () => {
      if (functions[name] === wrapped) functions[name] = original;
    },
  ];
}

/** Where the caller's own code stands: the first line of the stack that is neither ours nor a package's. */
function place(): string {
  const lines = new Error().stack?.split('\n').slice(1) ?? [];
  const own = lines.find((line) => !/host-watch|node_modules|node:/.test(line));
  return own === undefined ? 'inside a package' : own.trim();
}
