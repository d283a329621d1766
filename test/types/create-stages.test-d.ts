import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { AnyStage, StageResult, Stages } from '../../src/pipelines/create-stages.js';
import { createStages } from '../../src/pipelines/create-stages.js';

interface Paper {
  readonly title: string;
}

describe('createStages', () => {
  it('hands on what a stage answers, and the parts of a list where it expands', () => {
    const stages = createStages([
      { name: 'generate', expands: true, work: (paper: Paper) => Promise.resolve([{ question: paper.title }]) },
      {
        name: 'answer',
        concurrency: 5,
        work: (item, { document, attempt }) => {
          expectTypeOf(item).toEqualTypeOf<{ question: string }>();
          expectTypeOf(document).toEqualTypeOf<Paper>();
          expectTypeOf(attempt).toEqualTypeOf<number>();
          return of(item.question.length);
        },
      },
      {
        name: 'grade',
        steps: async (answer, { requestAsync, request }) => {
          expectTypeOf(answer).toEqualTypeOf<number>();
          expectTypeOf(request(() => 'text')).toEqualTypeOf<Observable<string>>();
          const more = await requestAsync(() => of(true));
          expectTypeOf(more).toEqualTypeOf<boolean>();
          return [answer, more] as const;
        },
      },
    ]);
    expectTypeOf(stages).toEqualTypeOf<Stages<Paper, readonly [number, boolean]>>();
    expectTypeOf(stages.run([])).toEqualTypeOf<Observable<StageResult<Paper, readonly [number, boolean]>>>();
  });

  it('refuses stages that do not fit each other, and inputs that do not fit the first', () => {
    createStages(
      // @ts-expect-error a number is no text
      [
        { name: 'count', work: (text: string) => text.length },
        { name: 'look', work: (text: string) => text },
      ],
    );
    const stages = createStages([{ name: 'count', work: (text: string) => text.length }]);
    // @ts-expect-error a number is no text
    stages.run([5]);
  });

  it('tells options of the documents that the first stage takes', () => {
    const stages = createStages([{ name: 'ask', work: ({ title }: Paper) => title }], {
      id: (document) => {
        expectTypeOf(document).toEqualTypeOf<Paper>();
        return document.title;
      },
      batches: { scheduling: 'priority', priority: ({ title }) => title.length },
    });
    expectTypeOf(stages).toEqualTypeOf<Stages<Paper, string>>();
    // @ts-expect-error the documents are papers
    createStages([{ name: 'ask', work: ({ title }: Paper) => title }], { id: (document: number) => String(document) });
  });

  it('refuses a stage without work, and one with both kinds', () => {
    // @ts-expect-error it does nothing
    createStages<string, string>([{ name: 'ask' }]);
    // @ts-expect-error one or the other
    createStages<string, string>([{ name: 'ask', work: (text) => text, steps: (text) => text }]);
  });

  it('takes a list that was made elsewhere, whose documents it knows at most', () => {
    const list: readonly AnyStage<string>[] = [];
    expectTypeOf(createStages(list)).toEqualTypeOf<Stages<string, unknown>>();
    const any: AnyStage[] = [];
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    expectTypeOf(createStages(any)).toEqualTypeOf<Stages<any, unknown>>();
  });
});
