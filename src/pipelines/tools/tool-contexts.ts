import type { PolicyContext, PolicyGuardContext } from '../../../operators/index.js';
import type { AnyTool, GuardContext, ToolContext } from './tool-types.js';

/** Context of a guard. The signal is made on the first look. */
export class AskContext implements GuardContext {
  readonly #asked: PolicyGuardContext;

  constructor(
    asked: PolicyGuardContext,
    readonly attempt: number,
    readonly tool: AnyTool,
    readonly context: unknown,
  ) {
    this.#asked = asked;
  }

  get signal(): AbortSignal {
    return this.#asked.signal;
  }
}

/** Context of a tool. The signal is made on the first look. */
export class CallContext implements ToolContext {
  readonly #attempt: PolicyContext;

  constructor(
    attempt: PolicyContext,
    readonly id: string,
    readonly context: unknown,
    readonly settle: ToolContext['settle'],
    readonly run: ToolContext['run'],
  ) {
    this.#attempt = attempt;
  }

  get attempt(): number {
    return this.#attempt.attempt;
  }

  get signal(): AbortSignal {
    return this.#attempt.signal;
  }
}
