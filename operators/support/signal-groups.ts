import { onAbort } from './abort.js';

/** What one signal ends. */
export class SignalGroup<M> {
  readonly #members = new Set<M>();
  readonly #emptied: () => void;

  constructor(emptied: () => void) {
    this.#emptied = emptied;
  }

  /** A copy: whoever looks at them takes them out. */
  get members(): readonly M[] {
    return [...this.#members];
  }

  add(member: M): void {
    this.#members.add(member);
  }

  remove(member: M): void {
    if (this.#members.delete(member) && this.#members.size === 0) this.#emptied();
  }
}

/** Everything that waits on signals. Each signal gets one listener, however much waits on it: Node warns of a leak above ten. */
export class SignalGroups<M> {
  readonly #groups = new Map<AbortSignal, SignalGroup<M>>();
  readonly #aborted: (group: SignalGroup<M>, reason: unknown) => void;

  /** @param aborted ends the members, and takes each of them out of the group */
  constructor(aborted: (group: SignalGroup<M>, reason: unknown) => void) {
    this.#aborted = aborted;
  }

  /** The group of a signal that has not aborted; it is given up when its last member is taken out. */
  of(signal: AbortSignal): SignalGroup<M> {
    return this.#groups.get(signal) ?? this.#make(signal);
  }

  #make(signal: AbortSignal): SignalGroup<M> {
    const group = new SignalGroup<M>(() => {
      stopListening();
      this.#groups.delete(signal);
    });
    const stopListening = onAbort(signal, () => {
      this.#aborted(group, signal.reason);
    });
    this.#groups.set(signal, group);
    return group;
  }
}
