import { first, type Observable, Subject } from 'rxjs';

/** One item in one stage. */
interface InStage {
  readonly documentId: string;
  readonly item: string;
  readonly stage: string;
}

/** What was sent and is not in the journal: no more than may be paid twice after a crash. */
export class InFlight {
  /** How many that may be. */
  most = Infinity;
  readonly #names = new Set<string>();
  readonly #landed = new Subject<void>();

  get isEmpty(): boolean {
    return this.#names.size === 0;
  }

  get hasRoom(): boolean {
    return this.#names.size < this.most;
  }

  /** Emits once, when there is room again. */
  room(): Observable<void> {
    return this.#landed.pipe(first(() => this.hasRoom));
  }

  add(item: InStage): void {
    this.#names.add(nameOf(item));
  }

  /** Its answer is in the journal, or there will be none. */
  delete(item: InStage): void {
    if (this.#names.delete(nameOf(item))) this.#landed.next();
  }
}

function nameOf({ documentId, stage, item }: InStage): string {
  return `${documentId} ${stage} ${item}`;
}
