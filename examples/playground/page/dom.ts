type Child = Node | string;
type Value = string | number | boolean | undefined | ((event: never) => void);

/** An element with what is set on it, and its children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Readonly<Record<string, Value>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') element.addEventListener(name, value as EventListener);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/** Writes a text only when it is another one: what has not changed is not read out or laid out again. */
export function write(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}
