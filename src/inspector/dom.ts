type Attributes = Readonly<Record<string, string | number>>;

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

export function whole(number: number): string {
  return Math.round(number).toLocaleString('en-US');
}

export function time(ms: number): string {
  if (ms >= 9950) return `${whole(ms / 1000)} s`;
  return ms >= 995 ? `${(ms / 1000).toFixed(1)} s` : `${whole(ms)} ms`;
}

export function several(count: number, one: string): string {
  return `${whole(count)} ${one}${count === 1 ? '' : 's'}`;
}
