import type { SchedulerLike } from 'rxjs';
import { contextVariable } from '#async-context';
import { Alarm, onAbort } from '../../../operators/build.js';

type Id = string | number;

/** A message of JSON-RPC, as far as it is read here. */
interface Message {
  readonly id?: Id;
  readonly method?: string;
  readonly params?: { readonly inputResponses?: unknown; readonly requestState?: unknown };
  readonly result?: { readonly resultType?: unknown; readonly inputRequests?: Readonly<Record<string, { readonly method?: string }>> };
}

interface Transport {
  onmessage?: ((message: Message, ...more: never[]) => void) | undefined;
  send(message: Message, ...more: never[]): Promise<void>;
}

/** Requests of a server that a person answers, or may be asked about. */
const ASKING: readonly string[] = ['elicitation/create', 'sampling/createMessage'];

/** A question that came as the answer to the call; a question of its own has an id. */
const INPUT = {};

const CALL = /* @__PURE__ */ contextVariable<WatchedCall<unknown>>();
const WATCHES = new WeakMap<Transport, ServerWatch>();

/** Failures of calls during which the server has asked the user. */
const ASKED = new WeakSet<object>();

/** Whether the call has failed after the server had asked the user: made again, it would ask again. */
export function hasAsked(error: unknown): boolean {
  return ASKED.has(Object(error) as object);
}

/** What the server of one connection asks of the client. */
class ServerWatch {
  readonly calls = new Set<WatchedCall<unknown>>();
  /** Requests of the server that have no answer yet. */
  readonly #pending = new Set<unknown>();
  /** Which call a request of the client belongs to. */
  readonly #owners = new Map<Id, WatchedCall<unknown>>();

  constructor(transport: Transport) {
    const { onmessage } = transport;
    const send = transport.send.bind(transport);
    transport.onmessage = (message, ...more) => {
      this.#received(message);
      onmessage?.call(transport, message, ...more);
    };
    transport.send = (message, ...more) => {
      this.#sent(message);
      return send(message, ...more);
    };
  }

  add(call: WatchedCall<unknown>): void {
    this.calls.add(call);
    for (const question of this.#pending) call.began(question, false);
  }

  remove(call: WatchedCall<unknown>): void {
    this.calls.delete(call);
    for (const [id, owner] of this.#owners) if (owner === call) this.#owners.delete(id);
  }

  #received({ id, method, result }: Message): void {
    if (id === undefined) return;
    if (method !== undefined) {
      if (method === 'ping') return;
      this.#pending.add(id);
      // Which call it is asked for is not said.
      for (const call of this.calls) call.began(id, ASKING.includes(method));
    } else if (result?.resultType === 'input_required') {
      const asksUser = Object.values(result.inputRequests ?? {}).some((one) => ASKING.includes(one.method ?? ''));
      for (const call of this.#owned(id)) call.began(INPUT, asksUser);
    }
  }

  #sent({ id, method, params }: Message): void {
    if (id === undefined) return;
    if (method === undefined) {
      this.#pending.delete(id);
      for (const call of this.calls) call.ended(id);
      return;
    }
    const call = CALL.get();
    if (call && this.calls.has(call)) this.#owners.set(id, call);
    if (params?.inputResponses !== undefined || params?.requestState !== undefined) for (const each of this.#owned(id)) each.ended(INPUT);
  }

  /** Without asynchronous contexts it may be any. */
  #owned(id: Id): Iterable<WatchedCall<unknown>> {
    const owner = this.#owners.get(id);
    return owner ? [owner] : this.calls;
  }
}

/** How long an attempt may take, and be silent. */
export interface CallTimes {
  readonly maxSilenceMs: number;
  readonly timeoutMs: number;
  readonly scheduler: SchedulerLike;
  /** The error of an attempt that takes too long. */
  late(timeoutMs: number): Error;
  /** The client's own. */
  silent(maxSilenceMs: number): Error;
}

/** Sends a call. What it is given begins the silence anew. */
type Send<R> = (signal: AbortSignal, heard: () => void) => Promise<R>;

/** One attempt: fails when the server is silent for too long, a question of the server that has no answer yet aside. */
class WatchedCall<R> {
  readonly #times: CallTimes;
  readonly #alarm: Alarm;
  readonly #controller = new AbortController();
  readonly #questions = new Set<unknown>();
  readonly #endsAt: number;
  #silentAt: number;
  #hasAsked = false;
  #fail: (error: unknown) => void = () => undefined;

  constructor(times: CallTimes) {
    this.#times = times;
    this.#alarm = new Alarm(times.scheduler, () => {
      this.#ring();
    });
    const now = this.#alarm.now();
    this.#endsAt = now + times.timeoutMs;
    this.#silentAt = now + times.maxSilenceMs;
  }

  run(watch: ServerWatch | undefined, send: Send<R>, outer: AbortSignal): Promise<R> {
    return new Promise<R>((resolve, reject) => {
      const call = this as WatchedCall<unknown>;
      const stopListening = onAbort(outer, () => {
        this.#controller.abort(outer.reason);
      });
      const over = (): void => {
        this.#alarm.clear();
        stopListening();
        watch?.remove(call);
      };
      this.#fail = (error) => {
        over();
        if (this.#hasAsked && typeof error === 'object' && error !== null) ASKED.add(error);
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- whatever the client fails with
        reject(error);
      };
      watch?.add(call);
      this.#arm();
      const heard = (): void => {
        this.heard();
      };
      CALL.run(call, () => send(this.#controller.signal, heard)).then((result) => {
        over();
        resolve(result);
      }, this.#fail);
    });
  }

  heard(): void {
    this.#silentAt = this.#alarm.now() + this.#times.maxSilenceMs;
    this.#arm();
  }

  began(question: unknown, asksUser: boolean): void {
    this.#questions.add(question);
    this.#hasAsked ||= asksUser;
    this.#arm();
  }

  ended(question: unknown): void {
    if (this.#questions.delete(question)) this.heard();
  }

  #arm(): void {
    this.#alarm.set(Math.min(this.#endsAt, this.#questions.size > 0 ? Infinity : this.#silentAt));
  }

  #ring(): void {
    const times = this.#times;
    this.#fail(this.#alarm.now() >= this.#endsAt ? times.late(times.timeoutMs) : times.silent(times.maxSilenceMs));
    this.#controller.abort();
  }
}

/** Makes an attempt over this client. */
export function watchedCall<R>(client: object, times: CallTimes, send: Send<R>, signal: AbortSignal): Promise<R> {
  const { transport } = client as { readonly transport?: Transport };
  let watch = transport && WATCHES.get(transport);
  if (transport && watch === undefined) {
    watch = new ServerWatch(transport);
    WATCHES.set(transport, watch);
  }
  return new WatchedCall<R>(times).run(watch, send, signal);
}
