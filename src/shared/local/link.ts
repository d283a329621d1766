import type { Socket } from 'node:net';
import { connect } from 'node:net';
import type { Contact } from './generations.js';
import { addressOf, VERSION } from './generations.js';
import { Lines } from './lines.js';

/** What becomes of an attempt to reach a server: it is there; its process has ended; it does not answer; something else is wrong. */
export type Reached = 'open' | 'gone' | 'silent' | 'failed';

/** There is no process behind a socket with these. */
const GONE: readonly string[] = ['ECONNREFUSED', 'ENOENT'];

export interface LinkListener {
  answered(id: number, answer: unknown): void;
  /** It is over, or never came to be. */
  ended(reached: Reached, fault: unknown): void;
  /** After that, when it was open. */
  closed(): void;
}

interface Message {
  readonly id?: unknown;
  readonly answer?: unknown;
  readonly sluice?: unknown;
}

/** A connection to a server. It keeps the process alive only while something waits for an answer. */
export class Link {
  isOpen = false;
  /** How often `tick` was called since something was heard. */
  private ticks = 0;
  private readonly socket: Socket;
  private readonly lines = new Lines();
  private settle!: (reached: Reached) => void;
  private hasEnded = false;

  constructor(
    folder: string,
    contact: Contact,
    private readonly listener: LinkListener,
  ) {
    const socket = (this.socket = connect(addressOf(folder, contact)));
    socket.setEncoding('utf8');
    socket.on('connect', () => socket.write(`${JSON.stringify({ sluice: VERSION, key: contact.key })}\n`));
    socket.on('data', (chunk: string) => {
      this.read(chunk);
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.end(GONE.includes(error.code ?? '') ? 'gone' : 'failed', error);
    });
    socket.on('close', () => {
      this.end('failed', new Error('the serving process has closed the connection'));
    });
  }

  /** Resolves when it is open, or cannot be. */
  readonly reached = new Promise<Reached>((resolve) => {
    this.settle = resolve;
  });

  send(line: string): void {
    this.socket.write(`${line}\n`);
  }

  keepAlive(isNeeded: boolean): void {
    if (isNeeded) this.socket.ref();
    else this.socket.unref();
  }

  /** Called at intervals while something is waited for: after so many without a word, the server is taken for one that has stopped. */
  tick(most: number): void {
    if (++this.ticks >= most) this.end('silent', new Error('the serving process does not answer'));
  }

  private end(reached: Reached, fault: unknown): void {
    if (this.hasEnded) return;
    const wasOpen = this.isOpen;
    this.hasEnded = true;
    this.isOpen = false;
    this.socket.destroy();
    this.listener.ended(reached, fault);
    this.settle(reached);
    if (wasOpen) this.listener.closed();
  }

  private read(chunk: string): void {
    this.ticks = 0;
    try {
      for (const line of this.lines.read(chunk)) this.take(Object(JSON.parse(line)) as Message);
    } catch (error) {
      this.end('failed', error);
    }
  }

  private take({ answer, id, sluice }: Message): void {
    if (this.isOpen) this.listener.answered(id as number, answer);
    else if (sluice === VERSION) {
      this.isOpen = true;
      this.settle('open');
    } else throw new TypeError('the serving process runs another version of Sluice');
  }
}
