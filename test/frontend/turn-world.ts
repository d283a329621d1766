import { asyncScheduler, Observable, Subscription } from 'rxjs';
import * as z from 'zod';
import { seededRandom } from '../../marbles/random.js';
import { virtualTime } from '../../marbles/virtual.js';
import { policy } from '../../operators/index.js';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import { toMessages } from '../../src/frontend/turn-messages.js';
import type { AgentTurns, TurnEvent, TurnMessage } from '../../src/frontend/turn-types.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { Tool, ToolCall } from '../../src/pipelines/tools/tool-types.js';
import { messageFaults } from '../support/message-faults.js';

/** What is to be seen of a world besides its faults: a family of schedules in which nothing happens shows nothing. */
export interface WorldCounts {
  readonly [what: string]: number;
}

const KEYS = ['a', 'b', 'c'] as const;
/** What providers want back as it was. */
const SEALED = [
  { type: 'opaque', protocol: 'anthropic', block: { type: 'thinking', thinking: '', signature: 'signed' } },
  { type: 'opaque', protocol: 'responses', block: { type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'sealed' } },
] as const;
const ENDS: ReadonlySet<string> = new Set(['finished', 'cancelled', 'failed']);

/** One seeded life of some conversations; says what went wrong, a line each. */
export function liveOnce(seed: number): { readonly faults: readonly string[]; readonly counts: WorldCounts } {
  const world = new World(seed);
  virtualTime(({ advance, flush }) => {
    world.live(advance, flush);
  });
  world.checkEnd();
  return { faults: world.faults.map((fault) => `seed ${String(seed)}: ${fault}`), counts: world.counts };
}

class World {
  readonly faults: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly #random: () => number;
  readonly #turns: AgentTurns;
  readonly #runner;
  /** All that was ever to be seen from outside. */
  readonly #seen: string[] = [];
  readonly #events = new Map<string, TurnEvent[]>();
  /** Turn under way, by conversation. */
  readonly #running = new Map<string, string>();
  readonly #pending: string[] = [];
  readonly #asked: {
    readonly subscription: Subscription;
    readonly heard: TurnEvent[];
    isReady: boolean;
    completed: boolean;
    left: boolean;
  }[] = [];
  readonly #controllers: AbortController[] = [];
  /** Guesses, by their secret; true when a model asked for it. */
  readonly #guesses = new Map<string, boolean>();
  #guessed = 0;
  #openStreams = 0;
  #depth = 0;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    this.#runner = createToolRunner({
      tools: this.#tools(),
      concurrency: this.#pick([1, 2, 5]),
      timeoutMs: 40,
      guard: ({ input }) => (input as { q: string }).q !== 'forbidden',
      random: this.#random,
    });
    this.#turns = createAgentTurn({
      model: (messages, { signal, step, key }) => this.#model(messages, signal, step, key),
      tools: this.#runner,
      maxSteps: 1 + this.#int(4),
      policy: policy({
        timeoutMs: this.#chance(0.3) ? 10 + this.#int(50) : Infinity,
        deadlineMs: this.#chance(0.3) ? 30 + this.#int(100) : Infinity,
      }),
      unfinished: this.#pick(['keep', 'keep', 'drop']),
      needsApproval: ({ input }) => {
        if ((input as { q: string }).q === 'oops') throw new Error('approval is broken');
        return (input as { q: string }).q.startsWith('ask');
      },
      speculate: { tools: ['read'], ttlMs: 5 + this.#int(60), maxQueued: 1 + this.#int(3) },
      history: (key) => (key === 'c' ? this.#given() : []),
    });
    this.#turns.events.subscribe((event) => {
      this.#hear(event);
    });
  }

  live(advance: (ms: number) => void, flush: () => void): void {
    const leave = this.#chance(0.8)
      ? KEYS.map((key) =>
          this.#turns.store(key).subscribe(() => {
            this.#look(key);
          }),
        )
      : [];
    const actions = 8 + this.#int(16);
    for (let i = 0; i < actions; i++) {
      this.#act();
      advance(this.#pick([0, 0, 1, 3, 8, 20]));
      this.#checkHistories();
    }
    if (this.#chance(0.2)) for (const stop of leave) stop();
    if (this.#chance(0.5)) void this.#turns.drain({ timeoutMs: this.#int(60) });
    else this.#turns.close();
    this.#ask(this.#pick(KEYS));
    flush();
    this.#checkHistories();
    for (const stop of leave) stop();
    this.#runner.close();
    flush();
  }

  // ---- what is done to it -------------------------------------------------------------------------------------------

  #act(): void {
    const key = this.#pick(KEYS);
    const dice = this.#random();
    if (dice < 0.45) this.#ask(key);
    else if (dice < 0.55) this.#turns.stop(this.#chance(0.2) ? undefined : key);
    else if (dice < 0.62) this.#leave();
    else if (dice < 0.68) this.#pick(this.#controllers)?.abort();
    else if (dice < 0.82) this.#answer();
    else if (dice < 0.97) this.#guess(key);
    else this.#resume(key);
  }

  #ask(key: string): void {
    const controller = new AbortController();
    if (this.#chance(0.05)) controller.abort();
    if (this.#chance(0.3)) this.#controllers.push(controller);
    this.#listen(this.#turns.ask(`question ${String(this.#asked.length)}`, { key, signal: controller.signal }));
  }

  #resume(key: string): void {
    this.#listen(this.#turns.resume({ key }));
  }

  #listen(turn: Observable<TurnEvent>): void {
    const asked = { subscription: new Subscription(), isReady: false, heard: [] as TurnEvent[], completed: false, left: false };
    this.#asked.push(asked);
    const subscription = turn.subscribe({
      next: (event) => {
        if (asked.left) this.faults.push(`${event.type} after leaving`);
        asked.heard.push(event);
        this.#react();
      },
      error: (error: unknown) => this.faults.push(`an error: ${String(error)}`),
      complete: () => {
        asked.completed = true;
      },
    });
    asked.subscription.add(subscription);
    asked.isReady = true;
  }

  #leave(): void {
    const asked = this.#pick(this.#asked);
    if (asked?.isReady !== true || asked.completed) return;
    asked.left = true;
    asked.subscription.unsubscribe();
  }

  #answer(): void {
    const id = this.#pick(this.#pending);
    if (id === undefined) return;
    const isKnown = this.#turns.answer(id, this.#pick([true, true, false, 'no way']), { appliesTo: this.#pick(['call', 'tool']) });
    this.#count(isKnown ? 'answered' : 'answered too late');
  }

  #guess(key: string): void {
    const secret = `secret${String(++this.#guessed)}of`;
    this.#guesses.set(secret, false);
    this.#turns.speculate({ name: this.#pick(['read', 'read', 'write']), input: { q: secret } }, { key });
  }

  /** What listeners do in the middle of things. */
  #react(): void {
    if (this.#depth > 2 || !this.#chance(0.03)) return;
    this.#depth++;
    this.#count('in the middle');
    this.#act();
    this.#depth--;
  }

  // ---- the model and the tools --------------------------------------------------------------------------------------

  #model(messages: readonly TurnMessage[], signal: AbortSignal, step: number, key: string): Observable<unknown> {
    this.#seen.push(JSON.stringify(messages));
    this.#checkMessages(messages, `what the model of ${key} is given`);
    if (this.#chance(0.03)) throw new Error('the model is broken');
    const script = this.#script(step);
    const isLate = this.#chance(0.2);
    return new Observable((subscriber) => {
      this.#openStreams++;
      let isEnded = false;
      const timers = new Subscription();
      let at = 0;
      for (const say of script) {
        at += say.afterMs;
        const now = (): void => {
          if (say.part === 'end' || say.part === 'error') isEnded = true;
          if (say.part === 'end') subscriber.complete();
          else if (say.part === 'error') subscriber.error(new Error('the model has failed'));
          else subscriber.next(say.part);
        };
        if (at === 0) now();
        else timers.add(asyncScheduler.schedule(now, at));
      }
      return () => {
        this.#openStreams--;
        if (!isEnded && !signal.aborted) this.faults.push('a stream was left whose signal has not aborted');
        // Some models keep emitting after their subscriber has left.
        if (!isLate) timers.unsubscribe();
      };
    });
  }

  #script(step: number) {
    const script: { readonly afterMs: number; readonly part: unknown }[] = [];
    const afterMs = (): number => this.#pick([0, 0, 1, 2, 5, 15]);
    const pieces = this.#int(4);
    for (let i = 0; i < pieces; i++) script.push({ afterMs: afterMs(), part: this.#piece() });
    const calls = this.#chance(0.75 - step * 0.1) ? 1 + this.#int(3) : 0;
    for (let i = 0; i < calls; i++) script.push({ afterMs: afterMs(), part: { type: 'toolCall', call: this.#call() } });
    if (this.#chance(0.5)) script.push({ afterMs: 0, part: { type: 'usage', inputTokens: 10, outputTokens: 5 } });
    const dice = this.#random();
    if (dice < 0.08) script.push({ afterMs: afterMs(), part: 'error' });
    else if (dice < 0.95) script.push({ afterMs: afterMs(), part: 'end' });
    return script;
  }

  #piece(): unknown {
    const text = this.#pick(['word ', ' ', '', 'more']);
    return this.#pick<unknown>([
      text,
      { type: 'text', text },
      { type: 'reasoning', text },
      ...SEALED,
      { choices: [{ index: 0, delta: { content: text } }] },
    ]);
  }

  #call(): ToolCall {
    const secrets = [...this.#guesses.keys()];
    const q = this.#chance(0.4) ? this.#pick(secrets) : undefined;
    if (q !== undefined) this.#guesses.set(q, true);
    const input = { q: q ?? this.#pick(['x', 'forbidden', 'ask 1', 'ask 2', 'oops', 'fail', 'hang']) };
    const id = this.#pick(['call_0', 'call_1', '', 'odd id!', `call_${String(this.#int(1000))}`]);
    const name = q === undefined ? this.#pick(['read', 'write', 'none there']) : 'read';
    return { id, name, input: this.#chance(0.05) ? 'no object' : input };
  }

  #tools(): Tool[] {
    const parameters = z.object({ q: z.string() });
    const execute: Tool['execute'] = (args, { id }) => {
      const { q } = args as { q: string };
      const isGuess = id.startsWith('guess_');
      if (isGuess) this.#count('guesses run');
      const afterMs = this.#pick([0, 1, 4, 12, 30]);
      if (q === 'hang') return new Observable(() => undefined);
      if (afterMs === 0) {
        if (q === 'fail') throw new Error('the tool has failed');
        return `${isGuess ? 'guessed' : 'called'} ${q}`;
      }
      const isLate = this.#chance(0.2);
      return new Observable((subscriber) => {
        const timer = asyncScheduler.schedule(() => {
          if (q === 'fail') subscriber.error(new Error('the tool has failed'));
          else subscriber.next(`${isGuess ? 'guessed' : 'called'} ${q}`);
          subscriber.complete();
        }, afterMs);
        return () => {
          if (!isLate) timer.unsubscribe();
        };
      });
    };
    const about = { description: 'A tool.', parameters, execute };
    return [
      { name: 'read', readOnly: true, ...about },
      { name: 'write', ...about },
    ];
  }

  #given(): readonly TurnMessage[] {
    const toolCalls = ['call_0', 'old'].map((id) => ({ id, name: 'read', input: { q: 'x' } }));
    const open: TurnMessage[] = [
      { role: 'user', content: 'before' },
      { role: 'assistant', content: '', toolCalls },
      { role: 'tool', toolCallId: 'old', name: 'read', content: 'known', isError: false },
    ];
    return this.#chance(0.5) ? open : open.slice(0, 1);
  }

  // ---- what must hold -----------------------------------------------------------------------------------------------

  #hear(event: TurnEvent): void {
    this.#seen.push(JSON.stringify(event));
    const { turnId, key, type } = event;
    const before = this.#events.get(turnId) ?? [];
    this.#events.set(turnId, [...before, event]);
    this.#count(type === 'cancelled' ? `cancelled: ${event.reason}` : type);
    if (type === 'pending') this.#pending.push(event.call.id);
    if (before.some((other) => ENDS.has(other.type))) this.faults.push(`${type} of ${turnId} after its end`);
    if (before.length === 0 && type === 'started') {
      const other = this.#running.get(key);
      if (other !== undefined) this.faults.push(`${turnId} begins while ${other} is under way`);
      this.#running.set(key, turnId);
    } else if (before.length === 0 && !ENDS.has(type)) this.faults.push(`${turnId} begins with ${type}`);
    else if (before.length > 0 && this.#running.get(key) !== turnId) this.faults.push(`${type} of ${turnId} beside another turn`);
    if (ENDS.has(type)) {
      if (before.length > 0) this.#running.delete(key);
      this.#checkCalls(turnId);
    }
    this.#look(key);
    this.#react();
  }

  #checkCalls(turnId: string): void {
    const events = this.#events.get(turnId) ?? [];
    const asked = events.flatMap((event) => (event.type === 'toolCall' ? [event.call] : []));
    const answered = events.flatMap((event) => (event.type === 'toolResult' ? [event.result] : []));
    if (answered.length !== asked.length) this.faults.push(`${turnId}: ${String(asked.length)} calls, ${String(answered.length)} results`);
    for (const { id, input } of asked) {
      const results = answered.filter((result) => result.tool_use_id === id);
      if (results.length !== 1) this.faults.push(`${turnId}: ${String(results.length)} results of ${id}`);
      const { content = '' } = results[0] ?? {};
      if (content.startsWith('guessed')) {
        this.#count('guesses confirmed');
        if (content !== `guessed ${(input as { q: string }).q}`)
          this.faults.push(`${turnId}: a guess for ${JSON.stringify(input)} answered ${content}`);
      }
    }
  }

  #look(key: string): void {
    const view = this.#turns.store(key).getSnapshot();
    this.#seen.push(JSON.stringify(view));
  }

  #checkHistories(): void {
    for (const key of KEYS) {
      const history = this.#turns.history(key);
      this.#seen.push(JSON.stringify(history));
      this.#checkMessages(history, `the history of ${key}`);
      const { messages } = this.#turns.store(key).getSnapshot();
      if (JSON.stringify(messages) !== JSON.stringify(history))
        this.faults.push(`the view of ${key} is not its history:\n  ${JSON.stringify(messages)}\n  ${JSON.stringify(history)}`);
    }
  }

  #checkMessages(messages: readonly TurnMessage[], what: string): void {
    if (messages.length === 0) return;
    for (const protocol of ['chat', 'anthropic', 'responses'] as const) {
      const faults = messageFaults(toMessages(messages, protocol), protocol);
      // What is to go on may end anyhow.
      for (const fault of faults) this.faults.push(`${what}, as ${protocol}: ${fault}`);
    }
  }

  checkEnd(): void {
    const { running, pending, guesses } = this.#turns.snapshot();
    if (running + pending + guesses > 0) this.faults.push(`left: ${JSON.stringify(this.#turns.snapshot())}`);
    const { open, executing, queued } = this.#runner.snapshot();
    if (open + executing + queued > 0) this.faults.push(`left in the runner: ${JSON.stringify(this.#runner.snapshot())}`);
    if (this.#openStreams > 0) this.faults.push(`${String(this.#openStreams)} streams left open`);
    for (const [turnId, events] of this.#events) {
      const ends = events.filter(({ type }) => ENDS.has(type)).length;
      if (ends !== 1) this.faults.push(`${turnId} has ${String(ends)} ends`);
    }
    for (const { heard, completed, left } of this.#asked) {
      const all = this.#events.get(heard[0]?.turnId ?? '') ?? [];
      if (!left && !completed) this.faults.push(`the asker of ${String(heard[0]?.turnId)} was not told of the end`);
      if (all.length === 0 && heard.length === 1 && heard[0]?.step === 0) continue;
      if (!left && heard.length !== all.length) this.faults.push(`an asker heard ${String(heard.length)} of ${String(all.length)} events`);
      if (heard.some((event, i) => event !== all[i])) this.faults.push('an asker heard something else');
    }
    const everything = this.#seen.join('\n');
    for (const [secret, isAsked] of this.#guesses) {
      if (isAsked) continue;
      this.#count('guesses rejected');
      if (everything.includes(secret)) this.faults.push(`a rejected guess was seen: ${secret}`);
    }
  }

  // ---- chance -------------------------------------------------------------------------------------------------------

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }

  #chance(share: number): boolean {
    return this.#random() < share;
  }

  #pick<V>(values: readonly [V, ...V[]]): V;
  #pick<V>(values: readonly V[]): V | undefined;
  #pick<V>(values: readonly V[]): V | undefined {
    return values[this.#int(values.length)];
  }
}
