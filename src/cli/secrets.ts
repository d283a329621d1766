/** Takes what is secret out of a text that is printed or written. */
export type Hide = (text: string) => string;

/** How the place where a model is asked is told of. */
export interface Shown {
  /** Its address, without what a query says: that may be a key. */
  readonly address: string;
  readonly hide: Hide;
}

/** Who is asked, and what is sent along. */
export interface Sent {
  readonly baseUrl: string;
  readonly apiKey?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

const HIDDEN = '***';

/** Less would be found in any word. */
const LEAST_CHARS = 4;

/** @param others more that is secret: what variables of the environment hold */
export function shownOf({ baseUrl, apiKey = '', headers = {} }: Sent, others: readonly string[] = []): Shown {
  // Whoever opens the address says that it is none.
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : new URL('about:blank');
  // A host is no secret, and what is one whole address is shown as the address is.
  const within = others.filter((value) => !url.host.includes(value.toLowerCase()) && !URL.canParse(value));
  const queried = [...url.searchParams.values(), ...url.search.split(/[?&]/).map((part) => part.replace(/^[^=]*=/, ''))];
  const hide = hiding([apiKey, ...Object.values(headers), ...queried, ...within]);
  return { address: hide(withoutQuery(url)), hide };
}

export function withoutQuery({ origin, pathname }: URL): string {
  return `${origin}${pathname === '/' ? '' : pathname}`;
}

export function hiding(secrets: readonly string[]): Hide {
  const forms = new Set(secrets.flatMap(formsOf).filter((form) => form.length >= LEAST_CHARS));
  const longestFirst = [...forms].sort((a, b) => b.length - a.length);
  return (text) => {
    const shown = longestFirst.reduce((rest, secret) => rest.replaceAll(secret, HIDDEN), text);
    return shown.endsWith('…') ? `${withoutTorn(shown.slice(0, -1), longestFirst)}…` : shown;
  };
}

/** As it is sent, as JSON and an address quote it, and what stands behind `Bearer`. */
function formsOf(secret: string): string[] {
  const sent = secret.trim();
  const [, behind = ''] = /^\S+\s+(\S+)$/.exec(sent) ?? [];
  return [sent, behind].flatMap((form) => [form, JSON.stringify(form).slice(1, -1), encodeURI(form), encodeURIComponent(form)]);
}

/** A text that was cut may end in the middle of a secret. */
function withoutTorn(text: string, secrets: readonly string[]): string {
  for (const secret of secrets)
    for (let length = secret.length - 1; length >= LEAST_CHARS; length--)
      if (text.endsWith(secret.slice(0, length))) return `${text.slice(0, -length)}${HIDDEN}`;
  return text;
}
