export { fromNative } from './from-native.js';
export type { SubscribableLike } from './from-subscribable.js';
export { fromSubscribable } from './from-subscribable.js';
export type { NativeObservable, ToNativeOptions } from './to-native.js';
export { toNative } from './to-native.js';
