import { startTransition, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';

/**
 * What the hooks read: a store of `toStore`, or anything else that `useSyncExternalStore` takes.
 * @beta
 */
export interface FlowStore<S> {
  /** Calls `listener` after every change of the snapshot; the returned function stops that. */
  readonly subscribe: (listener: () => void) => () => void;
  /** The same object until the next change. What it throws is thrown by the hook, for the next error boundary. */
  readonly getSnapshot: () => S;
  /** What a server renders, and a page until it is hydrated. */
  readonly getServerSnapshot: () => S;
  /** Anything that may change without the snapshot: `select` is asked again then. @defaultValue none */
  readonly status?: unknown;
}

/** A hook that renders what is selected of a store. */
export type Reader = <S, R>(store: FlowStore<S>, select: (snapshot: S) => R, isEqual: (a: R, b: R) => boolean) => R;

/** Renders every change at once. */
export const useAtOnce: Reader = (store, select, isEqual) => {
  const { selected, useShown } = useSelection(select, isEqual);
  const [read, readOnServer] = useMemo(
    () => [() => selected(store.getSnapshot(), store.status), () => selected(store.getServerSnapshot(), store.status)],
    [store, selected],
  );
  return useShown(useSyncExternalStore(store.subscribe, read, readOnServer));
};

/** Renders every change as a transition. */
export const useTransitions: Reader = (store, select, isEqual) => {
  const { selected, useShown } = useSelection(select, isEqual);
  const isFromServer = useSyncExternalStore(
    neverChanges,
    () => false,
    () => true,
  );
  const [state, setState] = useState(() => new Moment(store, isFromServer));
  let moment = state;
  // Another store than before. React renders anew with it, before anything is shown.
  if (state.store !== store) setState((moment = new Moment(store)));
  const value = useShown(moment.read(selected));

  const latest = useRef({ moment, selected });
  useEffect(() => {
    latest.current = { moment, selected };
  });
  useEffect(() => {
    let sent = latest.current.moment;
    const show = (): void => {
      const next = new Moment(store);
      if (sent.movesTo(next, latest.current.selected)) return;
      sent = next;
      startTransition(() => {
        setState(next);
      });
    };
    const leave = store.subscribe(show);
    show();
    return leave;
  }, [store]);
  return value;
};

type Selected<S, R> = (snapshot: S, status: unknown) => R;

/** `select`, with the same object for the same snapshot, which React insists on, and the older one of two that are equal. */
function useSelection<S, R>(select: (snapshot: S) => R, isEqual: (a: R, b: R) => boolean) {
  const shown = useRef<{ readonly value: R }>(undefined);
  const selected = useMemo((): Selected<S, R> => {
    let last: { readonly snapshot: S; readonly status: unknown; readonly value: R } | undefined;
    return (snapshot, status) => {
      if (last && Object.is(last.snapshot, snapshot) && last.status === status) return last.value;
      const value = select(snapshot);
      const older = last ?? shown.current;
      last = { snapshot, status, value: older && isEqual(older.value, value) ? older.value : value };
      return last.value;
    };
  }, [select, isEqual]);
  const useShown = (value: R): R => {
    useEffect(() => {
      shown.current = { value };
    }, [value]);
    return value;
  };
  return { selected, useShown };
}

/** What a store was at one moment: a change of it is one state of React. */
class Moment<S> {
  readonly store: FlowStore<S>;
  #snapshot: S | undefined;
  #status: unknown;
  /** What `getSnapshot` threw. */
  readonly #thrown: { readonly error: unknown } | undefined;

  constructor(store: FlowStore<S>, isFromServer = false) {
    this.store = store;
    this.#status = store.status;
    try {
      this.#snapshot = isFromServer ? store.getServerSnapshot() : store.getSnapshot();
    } catch (error) {
      this.#thrown = { error };
    }
  }

  read<R>(selected: Selected<S, R>): R {
    if (this.#thrown !== undefined) throw this.#thrown.error;
    return selected(this.#snapshot as S, this.#status);
  }

  /** Whether the same is selected of a later moment. Then this one takes its snapshot, for whoever selects something else of it, and no new state is needed. */
  movesTo<R>(next: Moment<S>, selected: Selected<S, R>): boolean {
    try {
      if (!Object.is(this.read(selected), next.read(selected))) return false;
    } catch {
      // It throws again where it is rendered.
      return false;
    }
    this.#snapshot = next.#snapshot;
    this.#status = next.#status;
    return true;
  }
}

const neverChanges = (): (() => void) => () => undefined;
