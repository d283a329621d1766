/** What a provider limits. `tokens` is input and output in one count (OpenAI, Azure). */
export type ProviderUnit = 'requests' | 'requestsPerDay' | 'tokens' | 'inputTokens' | 'outputTokens';
