import { filter, ignoreElements, map, merge, mergeMap, tap } from 'rxjs';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import type { AgentTurnOptions, TurnEvent } from '../../src/frontend/turn-types.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { anything } from '../../test/frontend/turn-kit.js';
import type { MarbleSpec, SpecKit } from '../spec.js';

/** Letters of a model's answer are what it says; `t` asks for the tool. */
const part = (letter: string) => (letter === 't' ? { type: 'toolCall', call: { id: 'call_1', name: 'tool', input: 'w' } } : letter);

/** What it says, `T` a call, `R` its result, `X` cancelled, `E` failed, `F` finished. */
const SHOWN: Partial<Record<TurnEvent['type'], string>> = { toolCall: 'T', toolResult: 'R', cancelled: 'X', failed: 'E', finished: 'F' };
const shown = (event: TurnEvent): string => (event.type === 'delta' ? event.text : (SHOWN[event.type] ?? ''));

/** The answer to a question is the inner stream of its name, that of its second step has a 2 behind it; the tool is the stream `w`. */
const asked = ({ input, inner }: SpecKit, options: Partial<AgentTurnOptions> = {}) => {
  const turns = createAgentTurn({
    model: (messages, { step }) => {
      const question = messages.findLast(({ role }) => role === 'user')?.content as string;
      return inner(step === 1 ? question : `${question}${String(step)}`).pipe(map(part));
    },
    tools: createToolRunner({ tools: [{ name: 'tool', description: 'Asks w.', parameters: anything, readOnly: true, execute: () => inner('w') }] }),
    ...options,
  });
  /** Questions in capitals belong to a conversation of their own. */
  const ask = (question: string) => turns.ask(question, { key: question === question.toLowerCase() ? 'small' : 'large' });
  return { turns, result: input('ask').pipe(mergeMap(ask), map(shown), filter((letter) => letter !== '')) };
};

const guessed: MarbleSpec['build'] = (kit) => {
  const { turns, result } = asked(kit, { speculate: { tools: ['tool'], ttlMs: 12 } });
  return merge(result, kit.input('guess').pipe(tap((input) => turns.speculate({ name: 'tool', input }, { key: 'small' })), ignoreElements()));
};

const label = 'turns.ask(question)';
const spec = (given: Omit<MarbleSpec, 'operator'>): MarbleSpec => ({ operator: 'createAgentTurn', ...given });

export const specs: readonly MarbleSpec[] = [
  spec({
    title: 'stops the old answer for the newest question',
    label,
    inputs: { ask:           '-a-----b------|' },
    inners: { a:              '--1--2--3|     ',
              b:                    '--4--5|' },
    subscriptions: { a:      '-^-----!       ',
                     b:      '-------^-----! ' },
    expected:                '---1--2X-4--5F|',
    cover: true,
    build: (kit) => asked(kit).result,
  }),
  spec({
    title: 'makes the calls of an answer and asks again',
    label,
    inputs: { ask:           '-a---------------|' },
    inners: { a:              '--1-t|           ',
              w:                   '---r|        ',
              a2:                      '--2|     ' },
    subscriptions: { a:      '-^----!',
                     w:      '------^---!',
                     a2:     '----------^--!' },
    expected:                '---1-T----R-2F---|',
    build: (kit) => asked(kit).result,
  }),
  spec({
    title: 'cancels the calls of an old question, each with a result',
    label,
    inputs: { ask:           '-a-------b--------|' },
    inners: { a:              '--t|              ',
              w:                 '--------r|     ',
              b:                      '------4|  ' },
    subscriptions: { a:      '-^--!',
                     w:      '----^----!',
                     b:      '---------^------!' },
    expected:                '---T-----(RX)--4F-|',
    build: (kit) => asked(kit).result,
  }),
  spec({
    title: 'answers conversations side by side',
    label,
    inputs: { ask:           '-a-B-----------|' },
    inners: { a:              '--1----2--|    ',
              B:                '--3-4-|      ' },
    subscriptions: { a:      '-^---------!',
                     B:      '---^-----!' },
    expected:                '---1-3-42F-F---|',
    build: (kit) => asked(kit).result,
  }),
  spec({
    title: 'says that an answer failed, and answers the next question',
    label,
    inputs: { ask:           '-a------b------|' },
    inners: { a:              '--1-#          ',
              b:                     '--2|     ' },
    subscriptions: { a:      '-^---!',
                     b:      '--------^--!' },
    expected:                '---1-E----2F---|',
    build: (kit) => asked(kit).result,
  }),
  spec({
    title: 'holds the result of a guess until the model asks for it',
    label: 'turns.speculate(call), turns.ask(question)',
    inputs: { guess:         '-w----------------|',
              ask:           '-----a------------|' },
    inners: { w:              '---r|             ',
              a:                  '--t|           ',
              a2:                    '--2|        ' },
    subscriptions: { w:      '-^---!',
                     a:      '-----^--!',
                     a2:     '--------^--!' },
    expected:                '-------TR-2F------|',
    build: guessed,
  }),
  spec({
    title: 'drops a guess that the answer does not ask for, and aborts its call',
    label: 'turns.speculate(call), turns.ask(question)',
    inputs: { guess:         '-w----------------|',
              ask:           '---a--------------|' },
    inners: { w:              '-----------r|     ',
              a:                '--1-2|           ' },
    subscriptions: { w:      '-^------!',
                     a:      '---^----!' },
    expected:                '-----1-2F---------|',
    build: guessed,
  }),
  spec({
    title: 'drops a guess that is too old',
    label: 'turns.speculate(call), turns.ask(question)',
    inputs: { guess:         '-w---------------|',
              ask:           '-----------------|' },
    inners: { w:              '--------------------r|' },
    subscriptions: { w:      '-^-----------!' },
    expected:                '-----------------|',
    build: guessed,
  }),
];
