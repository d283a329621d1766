export type Attributes = Readonly<Record<string, string | number>>;

/** Makes an element; texts are texts, whatever stands in them. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes?: Attributes,
  ...inside: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, inside);
}

export function svg(tag: string, attributes?: Attributes, ...inside: readonly (Node | string)[]): SVGElement {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, inside);
}

function filled<E extends Element>(element: E, attributes: Attributes = {}, inside: readonly (Node | string)[]): E {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...inside);
  return element;
}

/** Nothing is touched that has not changed. */
export function write(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Numbers as people read them; all that is neither number nor text is nothing. */
export function told(value: unknown): string {
  if (typeof value === 'number') return value.toLocaleString('en-US', { maximumFractionDigits: 2 });
  return typeof value === 'string' ? value : '';
}

export function time(ms: number): string {
  return ms < 1000 ? `${told(ms)} ms` : `${told(ms / 1000)} s`;
}

/** `callsSaved`: calls saved. */
export function words(name: string): string {
  return name.replace(/Ms$/, ', ms').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
