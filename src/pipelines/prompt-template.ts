/** `{{name}}`, or `{{name.deeper.still}}`; blanks inside the braces do not matter. */
const PLACEHOLDER = /\{\{([^{}]*)\}\}/g;

/** A text with placeholders, taken apart once and filled in many times. */
export class PromptTemplate {
  /** What the placeholders name, each as its steps: `['question', 'text']` for `{{question.text}}`. An empty step is a mistake in the template. */
  readonly placeholders: readonly (readonly string[])[];
  /** Whether a `{{` begins no placeholder. */
  readonly isUnclosed: boolean;
  /** What stands before, between and behind them. */
  readonly #texts: readonly string[];

  constructor(text: string) {
    const pieces = text.split(PLACEHOLDER);
    this.#texts = pieces.filter((_, i) => i % 2 === 0);
    this.isUnclosed = this.#texts.some((part) => part.includes('{{'));
    this.placeholders = pieces.filter((_, i) => i % 2 === 1).map((name) => name.split('.').map((step) => step.trim()));
  }

  /**
   * Texts go in as they are, everything else as JSON.
   *
   * @throws Error that names the placeholder for which there is no value.
   */
  fill(values: Readonly<Record<string, unknown>>): string {
    return this.#texts.reduce((filled, text, i) => {
      const steps = this.placeholders[i - 1] ?? [];
      const value = valueAt(values, steps);
      if (value === undefined) throw new Error(`there is no value for \`{{${steps.join('.')}}}\``);
      return `${filled}${typeof value === 'string' ? value : JSON.stringify(value)}${text}`;
    });
  }
}

function valueAt(values: unknown, steps: readonly string[]): unknown {
  let value = values;
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[step];
  }
  return value;
}
