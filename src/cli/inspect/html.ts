import { createHash } from 'node:crypto';

/** Text that is HTML already. */
export class Markup {
  constructor(readonly html: string) {}
}

type Value = string | number | Markup | readonly (string | number | Markup)[];

/** HTML with everything put into it escaped, unless it is HTML itself. */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Markup {
  return new Markup(parts.reduce((text, part, i) => `${text}${show(values[i - 1] as Value)}${part}`));
}

function show(value: Value): string {
  if (value instanceof Markup) return value.html;
  if (typeof value === 'object') return value.map(show).join('');
  return escaped(String(value));
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

export function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

/** Data for a script to read; it cannot end the element it stands in. */
export function jsonScript(id: string, json: string): Markup {
  return new Markup(`<script type="application/json" id="${id}">${json.replaceAll('<', String.raw`\u003c`)}</script>`);
}

export interface Page {
  /** By which a file is known for one of ours. */
  readonly mark: string;
  readonly title: string;
  readonly style: string;
  readonly body: Markup;
  readonly script: string;
  /** Whether the page may ask the server it came from. */
  readonly asksItsServer: boolean;
}

export interface MadePage {
  readonly html: string;
  /** Nothing may be loaded, and nothing run but what stands in the page. */
  readonly policy: string;
}

export function makePage({ mark, title, style, body, script, asksItsServer }: Page): MadePage {
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    'img-src data:',
    ...(asksItsServer ? ["connect-src 'self'"] : []),
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
  ].join('; ');
  const page = html`${new Markup(mark)}
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${new Markup(style)}</style>
</head>
<body>
${body}
<script type="module">${new Markup(script)}</script>
</body>
</html>
`;
  return { html: page.html, policy };
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
