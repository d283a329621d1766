import { AsyncResource } from 'node:async_hooks';
import type { Credit, CreditCorrections, CreditQuestion, CreditStore, CreditWait } from '../../../operators/index.js';
import { isFlowError } from '../../../operators/index.js';
import type { Contact } from './generations.js';
import { latestGeneration } from './generations.js';
import { LONGEST_LINE } from './lines.js';
import type { Reached } from './link.js';
import { Link } from './link.js';
import { LocalServer } from './local-server.js';
import type { LocalAnswer, LocalRequest } from './requests.js';
import { readAnswer, readRequest } from './requests.js';

/** At this interval it looks after what waits for an answer. */
const TICK_MS = 250;
/** A server that has not said anything for so many ticks is taken for one that has stopped. */
const SILENT_TICKS = 4;
const MOST_SILENT_TICKS = 32;
/** What has no answer after so long gets none: the limiter asks again. */
const ANSWER_MS = 2000;
/** Pauses between two tries to reach a server. Random, so that processes do not try together. */
const LEAST_PAUSE_MS = 10;
const MOST_PAUSE_MS = 50;

interface Waiting {
  readonly request: LocalRequest;
  readonly line: string;
  readonly since: number;
  readonly resolve: (answer: LocalAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A store that the processes of a machine share. It asks the process that serves, over one connection that is made when it is first used; or serves itself,
 * when there is none. What waits for an answer is asked again when another process takes over.
 */
export class LocalClient implements CreditStore {
  private readonly waiting = new Map<number, Waiting>();
  private ids = 0;
  private server: LocalServer | undefined;
  private link: Link | undefined;
  private isOpening = false;
  private timer: NodeJS.Timeout | undefined;
  private mostTicks = SILENT_TICKS;
  /** The last server that did not answer. */
  private silent = 0;
  private fault: unknown;
  /** A connection lives on after the call that made it, and must not keep what belongs to that. */
  private readonly context = new AsyncResource('sluice.localStore');

  /** @param openFolder - throws where the folder cannot be used */
  constructor(private readonly openFolder: () => string) {}

  ask(question: CreditQuestion): Credit | CreditWait | Promise<Credit | CreditWait> {
    return this.say({ ask: question }) as Credit | CreditWait | Promise<Credit | CreditWait>;
  }

  correct(corrections: CreditCorrections): Promise<void> | undefined {
    return this.say({ correct: corrections }) as Promise<void> | undefined;
  }

  hold(scope: string, ms: number): Promise<void> | undefined {
    return this.say({ hold: { scope, ms } }) as Promise<void> | undefined;
  }

  private say(given: LocalRequest): LocalAnswer | Promise<LocalAnswer> {
    // What a server would not take is not sent: it would cut off all that waits.
    const request = readRequest(given);
    if (this.serves()) return (this.server as LocalServer).answer(request);
    const id = ++this.ids;
    const line = JSON.stringify({ id, ...request });
    if (line.length > LONGEST_LINE) throw new RangeError(`a message of ${line.length} characters, of ${LONGEST_LINE} at most`);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { request, line, since: performance.now(), resolve, reject });
      if (this.link?.isOpen) this.link.send(line);
      this.context.runInAsyncScope(() => {
        this.attend();
      });
    });
  }

  private serves(): boolean {
    if (!this.server) return false;
    if (this.server.isCurrent) return true;
    this.server.close();
    this.server = undefined;
    return false;
  }

  /** Looks after what waits, as long as something does. */
  private attend(): void {
    const isNeeded = this.waiting.size > 0;
    this.link?.keepAlive(isNeeded);
    if (isNeeded) {
      this.timer ??= setInterval(() => {
        this.tick();
      }, TICK_MS);
      if (!this.link && !this.server) void this.open();
    } else {
      clearInterval(this.timer);
      this.timer = undefined;
    }
  }

  private tick(): void {
    const now = performance.now();
    for (const [id, { reject, since }] of this.waiting) {
      if (now - since < ANSWER_MS) break;
      this.waiting.delete(id);
      reject(new Error('the local store does not answer', { cause: this.fault }));
    }
    if (this.waiting.size > 0) this.link?.tick(this.mostTicks);
    this.attend();
  }

  private async open(): Promise<void> {
    if (this.isOpening) return;
    this.isOpening = true;
    while (this.waiting.size > 0 && !this.link?.isOpen && !this.server) {
      try {
        if (await this.tryOpen()) continue;
      } catch (error) {
        this.fault = error;
        if (isFlowError(error)) this.rejectAll(error);
      }
      await new Promise((resolve) => setTimeout(resolve, LEAST_PAUSE_MS + Math.random() * (MOST_PAUSE_MS - LEAST_PAUSE_MS)));
    }
    this.isOpening = false;
    this.attend();
  }

  /** Reaches the process that serves, or becomes it; false when it is better to wait before the next try. */
  private async tryOpen(): Promise<boolean> {
    const folder = this.openFolder();
    const latest = latestGeneration(folder);
    if (latest?.contact && latest.number !== this.silent) {
      const reached = await this.connect(folder, latest.number, latest.contact);
      if (reached !== 'gone') return reached !== 'failed';
    }
    const server = await LocalServer.start(folder, latest?.number ?? 0);
    // Another process was faster.
    if (!server) return true;
    this.server = server;
    this.answerAll();
    return true;
  }

  private async connect(folder: string, number: number, contact: Contact): Promise<Reached> {
    const link = new Link(folder, contact, {
      answered: (id, answer) => {
        this.answered(id, answer);
      },
      ended: (reached, fault) => {
        this.link = undefined;
        this.fault = fault;
        if (reached !== 'silent') return;
        // Should one take long to read its log, others must not take over one after the other.
        this.mostTicks = Math.min(MOST_SILENT_TICKS, 2 * this.mostTicks);
        this.silent = number;
      },
      closed: () => {
        this.attend();
      },
    });
    this.link = link;
    this.attend();
    const reached = await link.reached;
    if (reached === 'open') {
      this.mostTicks = SILENT_TICKS;
      for (const { line } of this.waiting.values()) link.send(line);
    }
    return reached;
  }

  private answered(id: number, answer: unknown): void {
    const waiting = this.waiting.get(id);
    // A question that was abandoned.
    if (!waiting) return;
    const read = readAnswer(waiting.request, answer);
    this.waiting.delete(id);
    waiting.resolve(read);
    if (this.waiting.size === 0) this.attend();
  }

  /** As the process that serves now. */
  private answerAll(): void {
    for (const [id, { reject, request, resolve }] of this.waiting) {
      if (!this.serves()) return;
      this.waiting.delete(id);
      try {
        resolve((this.server as LocalServer).answer(request));
      } catch (error) {
        reject(error);
      }
    }
  }

  private rejectAll(error: unknown): void {
    const all = [...this.waiting.values()];
    this.waiting.clear();
    for (const { reject } of all) reject(error);
  }
}
