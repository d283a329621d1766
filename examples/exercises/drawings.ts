import type { Observable } from 'rxjs';
import { map, mergeMap, throwError, timer } from 'rxjs';
import type { MarbleSpec, SpecKit } from '../../marbles/index.js';
import { byAge, byCount, bySilence, byTime } from './q1-predict-the-batches.js';
import { analyse, readAloud, sendAudit } from './q2-latest-sample-or-queue.js';
import { withBulkhead, withMergeMap } from './q3-one-sandbox.js';
import { smartBatches } from './q4-smart-batcher.js';
import { halvesWithSwitchMap, shareCalls } from './q5-one-bad-prompt.js';
import { answerConfirmed, answerLeaky, answerNewest } from './q6-take-back-a-guess.js';

type Picture = Omit<MarbleSpec, 'operator'>;

const exercise = (picture: Picture): MarbleSpec => ({ operator: 'exercises', ...picture });

/** A at 0 ms, B at 10, C at 40, D at 60, E at 90; nothing says that it is over. */
const FIVE_EVENTS = 'A 9ms B 29ms C 19ms D 29ms E 59ms -';
const batches = { x: ['A', 'B', 'C'], y: ['D', 'E'], z: ['A', 'B'], w: ['C', 'D'], v: ['A', 'B', 'C', 'D', 'E'], u: ['E'], o: [] };
const five = (title: string, label: string, expected: string, gather: (source: Observable<string>) => Observable<unknown>): MarbleSpec =>
  exercise({
    title,
    label,
    inputs: { source: FIVE_EVENTS },
    expected,
    unsub: '^ 210ms !',
    values: batches,
    build: ({ input }) => gather(input('source')),
  });

/** Answers a call after 12 ms, or refuses it as one that holds the bad prompt, F. */
const model =
  ({ watch }: SpecKit) =>
  (prompts: readonly string[]): Observable<string[]> =>
    watch(
      prompts.join(''),
      timer(12).pipe(
        map(() => {
          if (prompts.includes('F')) throw Object.assign(new Error('forbidden words'), { status: 400 });
          return prompts.map((prompt) => prompt.toLowerCase());
        }),
      ),
    );

/** `t` stands for a text of 100 tokens, the others are drawn with what they weigh. */
const TOKENS: Readonly<Record<string, number>> = { h: 9000, p: 5000, q: 3192, r: 3193 };
const texts = (title: string, source: string, expected: string, values: Readonly<Record<string, unknown>>): MarbleSpec =>
  exercise({
    title,
    label: 'smartBatches: 20 texts, 8192 tokens, 100 ms',
    inputs: { source },
    expected,
    unsub: '^ 260ms !',
    values,
    build: ({ input }) => smartBatches(input('source'), (text) => TOKENS[text] ?? 100),
  });

export const specs: readonly MarbleSpec[] = [
  five('bufferTime: a window every 50 ms, empty ones too', 'bufferTime(50)', '50ms x 49ms y 49ms o 49ms o', byTime),
  five('bufferCount: E waits for a partner', 'bufferCount(2)', '10ms z 49ms w', byCount),
  five(
    'buffer with debounceTime: all in one, 30 ms after the last',
    'shared.pipe(buffer(shared.pipe(debounceTime(30))))',
    '120ms v',
    bySilence,
  ),
  exercise({
    title: 'buffer with debounceTime: a millisecond later for C and E, and there are three',
    label: 'shared.pipe(buffer(shared.pipe(debounceTime(30))))',
    inputs: { source: 'A 9ms B 30ms C 18ms D 30ms E 58ms -' },
    expected: '40ms z 49ms w 30ms u',
    unsub: '^ 210ms !',
    values: batches,
    build: ({ input }) => bySilence(input('source')),
  }),
  five('batch: 50 ms from the first item of each batch, and no empty one', 'batch({ maxWaitMs: 50 })', '50ms x 59ms y', byAge),

  exercise({
    title: 'latest: only the newest place is read to the end',
    label: 'readAloud: scan, then switchLatest',
    inputs: { presses: 'n--nn---------|' },
    inners: { 1: '-abcd|', 2: '-efgh|', 3: '-ijkl|' },
    expected: '-ab--ijkl-----|',
    build: ({ input, inner }) => readAloud(input('presses'), (sentence) => inner(String(sentence))),
  }),
  exercise({
    title: 'sample: the newest price at each beat, one analysis at a time',
    label: 'analyse: sampleTime(5), then one at a time, the newest waits',
    inputs: { prices: 'abcdefghijklmnopqrstuvwxyz|' },
    expected: '12ms f 6ms k 6ms p 6ms (z|)',
    build: ({ input, watch }) =>
      analyse(input<never>('prices'), 5, (price) => watch(String(price), timer(7).pipe(map(() => String(price))))),
  }),
  exercise({
    title: 'queue: the network is gone for 3 s, and every line arrives once, in order',
    label: 'sendAudit: batches of 1 s, one after the other, each repeated until it has arrived',
    inputs: { lines: 'a 499ms b 499ms c 999ms d 3999ms |' },
    expected: '4040ms x 9ms d 1949ms |',
    values: { x: 'abc' },
    build: (kit) => {
      const isDown = (): boolean => kit.scheduler.now() < 4000;
      const attempts = new Map<string, number>();
      return sendAudit(kit.input('lines'), (lines) => {
        const name = lines.join('');
        const attempt = (attempts.get(name) ?? 0) + 1;
        attempts.set(name, attempt);
        const send = timer(10).pipe(
          map(() => {
            if (isDown()) throw new Error('the network is gone');
            return name as never;
          }),
        );
        return kit.watch(attempt === 1 ? name : `${name} ${String(attempt)}`, send);
      });
    },
  }),

  exercise({
    title: 'mergeMap: the second and the third block wait for their turn',
    label: 'mergeMap(execute, 1)',
    inputs: { blocks: '(abc)|' },
    inners: { a: '---(A|)', b: '---(B|)', c: '---(C|)' },
    expected: '---A--B--(C|)',
    build: ({ input, inner }) => withMergeMap(input('blocks'), (block) => inner(block)),
  }),
  exercise({
    title: 'mergeMap: a block that fails takes the queue with it',
    label: 'mergeMap(execute, 1)',
    inputs: { blocks: '(abc)|' },
    inners: { a: '---(A|)', b: '--#', c: '---(C|)' },
    expected: '---A-#',
    error: new Error('SyntaxError'),
    build: ({ input, inner }) => withMergeMap(input('blocks'), (block) => inner(block)),
  }),
  exercise({
    title: 'bulkheadMap: a block that fails is the result of that block',
    label: 'bulkheadMap(execute, { concurrency: 1 })',
    inputs: { blocks: '(abc)|' },
    inners: { a: '---(A|)', b: '--#', c: '---(C|)' },
    expected: '---A-x--(C|)',
    values: { x: 'b: SyntaxError' },
    error: new Error('SyntaxError'),
    build: ({ input, inner }) =>
      withBulkhead(input('blocks'), (block) => inner(block)).pipe(
        map((settled) => (settled.status === 'fulfilled' ? settled.value : `${settled.input}: ${(settled.reason as Error).message}`)),
      ),
  }),

  texts('20 texts go at once, and the twenty-first has 100 ms of its own', '(ttttttttttttttttttttt)', 'x 99ms y', {
    x: Array.from('tttttttttttttttttttt'),
    y: ['t'],
  }),
  texts('100 ms count from the first text, not from the last', 't 39ms t 49ms t 59ms t', '100ms x 149ms y', {
    x: ['t', 't', 't'],
    y: ['t'],
  }),
  texts('8192 tokens exactly are a full batch', 'p 9ms q', '10ms x', { x: ['p', 'q'] }),
  texts('a text that does not fit sends the others, and its own 100 ms begin', 'p 9ms r', '10ms x 99ms y', { x: ['p'], y: ['r'] }),
  texts('a text above 8192 tokens goes alone, behind the batch it closes', 't 9ms h', '10ms (xy)', { x: ['t'], y: ['h'] }),

  exercise({
    title: 'one bad prompt among ten: nine answers and one error',
    label: 'batcher = shareCalls(model), prompts$.pipe(mergeMap((prompt) => batcher.loadSettled(prompt)))',
    inputs: { users: '(ABCDEFGHIJ)' },
    expected: '24ms (abcdehij) 2ms (xg)',
    build: (kit) => {
      const batcher = shareCalls(model(kit));
      return kit.input('users').pipe(
        mergeMap((prompt) => batcher.loadSettled(prompt)),
        map((settled) => (settled.status === 'fulfilled' ? settled.value : 'x')),
      );
    },
  }),
  exercise({
    title: 'a wrong key is no fault of a prompt: one call, and nothing is cut up',
    label: 'batcher = shareCalls(model), prompts$.pipe(mergeMap((prompt) => batcher.loadSettled(prompt)))',
    inputs: { users: '(ABC)' },
    expected: '5ms (xxx)',
    build: (kit) => {
      const refuse = timer(5).pipe(mergeMap(() => throwError(() => Object.assign(new Error('no such key'), { status: 401 }))));
      const batcher = shareCalls((prompts) => kit.watch(prompts.join(''), refuse));
      return kit.input('users').pipe(
        mergeMap((prompt) => batcher.loadSettled(prompt)),
        map((settled) => (settled.status === 'fulfilled' ? settled.value : 'x')),
      );
    },
  }),
  exercise({
    title: 'halving with switchMap: the first half is stopped by the second, and its answers are lost',
    label: "halvesWithSwitchMap(model, [...'ABCDEFGHIJ'])",
    inputs: {},
    expected: '36ms (y|)',
    values: { y: 'i j' },
    build: (kit) => halvesWithSwitchMap(model(kit), Array.from('ABCDEFGHIJ')).pipe(map((answers) => answers.join(' '))),
  }),

  exercise({
    title: 'switchLatest: the weather call is stopped, and the model never hears of it',
    label: 'answerNewest(intents, tool, model)',
    inputs: { intents: 'w--m-------|' },
    inners: { w: '-----(W|)', m: '---(M|)', M: '--(1|)' },
    expected: '--------1--|',
    cover: true,
    build: ({ input, inner }) =>
      answerNewest(
        input('intents'),
        (intent) => inner(intent),
        (found) => inner(found),
      ),
  }),
  exercise({
    title: 'switchMap around the tool alone: the weather came before the change of mind, so it is shown after it',
    label: 'intents.pipe(switchMap(tool), mergeMap(model))',
    inputs: { intents: 'w----m---------|' },
    inners: { w: '---(W|)', m: '---(M|)', W: '----(1|)', M: '--(2|)' },
    expected: '-------1--2----|',
    build: ({ input, inner }) =>
      answerLeaky(
        input('intents'),
        (intent) => inner(intent),
        (found) => inner(found),
      ),
  }),
  exercise({
    title: 'speculate: the weather is there, and is dropped when the user wants music',
    label: 'answerConfirmed(guesses, intents, tool, model)',
    inputs: { guesses: 'w----------|', intents: '------m----|' },
    inners: { w: '--(W|)', m: '--(M|)', M: '--(1|)' },
    expected: '----------1|',
    build: ({ input, inner }) =>
      answerConfirmed(
        input('guesses'),
        input('intents'),
        (intent) => inner(intent),
        (found) => inner(found),
      ),
  }),
  exercise({
    title: 'speculate: the weather is there, and costs no wait when the user does ask for it',
    label: 'answerConfirmed(guesses, intents, tool, model)',
    inputs: { guesses: 'w----------|', intents: '------w----|' },
    inners: { w: '--(W|)', W: '--(1|)' },
    expected: '--------1--|',
    build: ({ input, inner }) =>
      answerConfirmed(
        input('guesses'),
        input('intents'),
        (intent) => inner(intent),
        (found) => inner(found),
      ),
  }),
];
