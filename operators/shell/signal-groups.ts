import type { Subscription } from 'rxjs';
import { onAbort } from './abort.js';

/** Everything that one signal cancels. */
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

/** Members by signal. Each signal gets one listener, however many members it cancels: Node warns of a leak above ten. */
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

/** What is to be called when signals abort, with the signal's reason. */
export class AbortCalls {
  readonly #groups: SignalGroups<(reason: unknown) => void>;

  /** @param together is given the calls of one signal to make, when something has to be done around them */
  constructor(together: (makeCalls: () => void) => void = callDirectly) {
    this.#groups = new SignalGroups(({ members }, reason) => {
      together(() => {
        for (const stop of members) stop(reason);
      });
    });
  }

  /** Stops something when the signal aborts, at once if it has already, unless its owner is over by then. */
  stop(signal: AbortSignal, owner: Subscription, stop: (reason: unknown) => void): void {
    if (owner.closed) return;
    if (signal.aborted) {
      stop(signal.reason);
      return;
    }
    const group = this.#groups.of(signal);
    group.add(stop);
    owner.add(() => {
      group.remove(stop);
    });
  }
}

function callDirectly(makeCalls: () => void): void {
  makeCalls();
}
