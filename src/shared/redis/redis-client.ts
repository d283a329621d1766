import { createHash } from 'node:crypto';
import type { Credit, CreditCorrections, CreditLimit, CreditQuestion, CreditStore, CreditWait } from '../../../operators/index.js';
import type { LocalAnswer, LocalRequest } from '../local/requests.js';
import { readAnswer, readRequest } from '../local/requests.js';
import { creditScript } from './credit-script.js';
import { escapeText, StoreKeys, unescapeText } from './keys.js';

/** What has no answer after so long gets none: the limiter asks again. */
const ANSWER_MS = 2000;

/** A message that a connection has not answered for so long is sent again: the node that it went to may be gone. */
const SEND_AGAIN_MS = 10_000;

/** Longest part of what Redis says that an error repeats. */
const LONGEST_REASON = 300;

/**
 * What a store needs of a connection: `Redis` and `Cluster` of ioredis have it.
 * @beta
 */
export interface RedisConnection {
  eval(script: string, numberOfKeys: number, ...keysAndArguments: string[]): Promise<unknown>;
  evalsha(sha1: string, numberOfKeys: number, ...keysAndArguments: string[]): Promise<unknown>;
}

interface Sent {
  readonly at: number;
  readonly answer: Promise<unknown>;
}

/**
 * A store whose state is in Redis: one script answers each message in one step. The connection belongs to the user, with its own rules for when to connect
 * again; what it does not answer in time is rejected.
 */
export class RedisClient implements CreditStore {
  private readonly keys: StoreKeys;
  private readonly sha: string;
  /** What the connection has not answered, by message. A repeated message waits for the same answer, so that a queue of a connection stays short. */
  private readonly open = new Map<string, Sent>();
  private holds = 0;

  constructor(
    private readonly redis: RedisConnection,
    name: string,
    private readonly script = creditScript(),
  ) {
    this.keys = new StoreKeys(name);
    this.sha = createHash('sha1').update(script).digest('hex');
  }

  ask(question: CreditQuestion): Promise<Credit | CreditWait> {
    return this.say({ ask: question }) as Promise<Credit | CreditWait>;
  }

  correct(corrections: CreditCorrections): Promise<void> {
    return this.say({ correct: corrections }) as Promise<void>;
  }

  hold(scope: string, ms: number): Promise<void> {
    return this.say({ hold: { scope, ms } }) as Promise<void>;
  }

  private async say(given: LocalRequest): Promise<LocalAnswer> {
    // What the script could not read is not sent.
    const request = readRequest(given);
    const [operation, keys, message] = this.messageOf(request);
    // Holds have no number: each is sent, in their order.
    const { number } = 'ask' in request ? request.ask : 'correct' in request ? request.correct : { number: `hold ${String(++this.holds)}` };
    const id = JSON.stringify([operation, ...keys.slice(1), number]);
    return answerIn(await inTime(this.sent(id, keys, [operation, message])), request);
  }

  private sent(id: string, keys: readonly string[], rest: readonly string[]): Promise<unknown> {
    const before = this.open.get(id);
    if (before && performance.now() - before.at < SEND_AGAIN_MS) return before.answer;
    const sent: Sent = { at: performance.now(), answer: this.run([...keys, ...rest], keys.length) };
    this.open.set(id, sent);
    const forget = (): void => {
      if (this.open.get(id) === sent) this.open.delete(id);
    };
    sent.answer.then(forget, forget);
    return sent.answer;
  }

  private messageOf(request: LocalRequest): [operation: string, keys: readonly string[], message: string] {
    if ('hold' in request) return ['hold', this.keys.ofScope(request.hold.scope), JSON.stringify({ ms: request.hold.ms })];
    const isQuestion = 'ask' in request;
    const { limits, owner, scope, ...rest } = isQuestion ? request.ask : request.correct;
    const lessons = isQuestion ? request.ask.lessons : undefined;
    const message = {
      ...rest,
      owner: escapeText(owner),
      limits: limits.map((limit): CreditLimit => ({ ...limit, key: escapeText(limit.key) })),
      lessons: lessons && renamed(lessons, escapeText),
    };
    return [isQuestion ? 'ask' : 'correct', this.keys.ofOwner(scope, owner), JSON.stringify(message)];
  }

  /** Runs the script, which Redis keeps until it restarts or its scripts are flushed. */
  private async run(keysAndArguments: readonly string[], keys: number): Promise<unknown> {
    try {
      return await this.redis.evalsha(this.sha, keys, ...keysAndArguments);
    } catch (error) {
      if (!reasonOf(error).startsWith('NOSCRIPT')) throw error;
      return this.redis.eval(this.script, keys, ...keysAndArguments);
    }
  }
}

/** @throws Error without what the connection has sent: its errors have commands with passwords in them. */
async function inTime(sent: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`no answer in ${String(ANSWER_MS / 1000)} s`));
    }, ANSWER_MS);
  });
  const answered = Promise.race([sent, late]).catch((error: unknown) => {
    throw new Error(`the Redis store does not answer: ${reasonOf(error)}`);
  });
  try {
    return await answered;
  } finally {
    clearTimeout(timer);
  }
}

function reasonOf(error: unknown): string {
  const { message } = Object(error) as { readonly message?: unknown };
  return typeof message === 'string' ? message.slice(0, LONGEST_REASON) : 'unknown error';
}

/** @throws Error when it is none. */
function answerIn(text: unknown, request: LocalRequest): LocalAnswer {
  try {
    const value = JSON.parse(text as string) as { readonly lessons: Readonly<Record<string, unknown>> } | null;
    return readAnswer(request, value && { ...value, lessons: renamed(value.lessons, unescapeText) });
  } catch {
    throw new Error('the Redis store returned invalid data: another program has written to its keys');
  }
}

function renamed<V>(table: Readonly<Record<string, V>>, rename: (key: string) => string): Record<string, V> {
  return Object.fromEntries(Object.entries(table).map(([key, value]) => [rename(key), value]));
}
